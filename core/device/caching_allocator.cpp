#include <tandem/core/base/check.h>
#include <tandem/core/device/caching_allocator.h>

#include <algorithm>
#include <bit>

namespace tandem {

CachingAllocator::SizeClass CachingAllocator::size_class(std::size_t bytes) const {
  bytes = std::max(bytes, alignment_);
  const std::size_t step = std::bit_floor(bytes) / (bytes < large ? 4 : most_steps);
  const std::size_t rounded = (bytes + step - 1) / step * step;
  const auto power = static_cast<std::size_t>(std::bit_width(rounded) - 1);
  const std::size_t index =
      power * most_steps + (rounded - std::bit_floor(rounded)) * most_steps / std::bit_floor(rounded);
  return {index, (rounded + alignment_ - 1) / alignment_ * alignment_};
}

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool splits = is_split(bytes);
  const SizeClass wanted = size_class(bytes);
  void* const block = splits ? split_off((bytes + alignment_ - 1) / alignment_ * alignment_) : of_size_class(wanted);
  TANDEM_CHECK(block, "out of memory: ", bytes, " bytes are not to be had", source_.situation(), "; ",
               stats_.bytes_in_use, " bytes are in use; use a smaller batch or model");
  const std::size_t given = splits ? split_.size_of(block) : wanted.bytes;
  source_.set_in_use(block, bytes, given);
  stats_.bytes_cached -= given;
  stats_.bytes_in_use += given;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  return block;
}

// A pool takes cached blocks before it asks for new ones: those would lie about for as long as the pool is used.
void* CachingAllocator::of_size_class(SizeClass wanted) {
  const Pool open = pool_of_this_thread();
  auto* const pool = open ? &pools_[open][wanted.index] : nullptr;
  const bool adopts = pool && pool->empty();
  auto& free = pool && !adopts ? *pool : free_[wanted.index];
  void* block = nullptr;
  if (!free.empty()) {
    block = free.back();
    free.pop_back();
  } else {
    block = allocate_from_source(wanted.bytes);
    if (!block) {
      release_cached();
      block = allocate_from_source(wanted.bytes);
    }
  }
  if (adopts && block) owner_[block] = open;
  return block;
}

void* CachingAllocator::split_off(std::size_t bytes) {
  // What a slab has at least, so that several blocks fit into it, and what its size is a multiple of.
  constexpr std::size_t least = std::size_t{20} << 20, unit = std::size_t{2} << 20;
  const Pool open = pool_of_this_thread();
  if (void* const block = split_.take(bytes, open, open)) return block;
  if (void* const block = open ? split_.take(bytes, 0, open) : nullptr) return block;
  std::size_t size = bytes < least / 2 ? least : (bytes + unit - 1) / unit * unit;
  void* slab = allocate_from_source(size);
  if (!slab) slab = allocate_from_source(size = bytes);
  if (!slab) {
    release_cached();
    slab = allocate_from_source(size);
  }
  if (!slab) return nullptr;
  split_.add_slab(slab, size, open);
  return split_.take(bytes, open, open);
}

void CachingAllocator::deallocate(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const SizeClass of = size_class(bytes);
  const std::size_t given = is_split(bytes) ? split_.size_of(block) : of.bytes;
  source_.set_in_use(block, 0, given);
  stats_.bytes_in_use -= given;
  stats_.bytes_cached += given;
  if (is_split(bytes)) return split_.give_back(block);
  const auto owner = owner_.find(block);
  (owner == owner_.end() ? free_ : pools_[owner->second])[of.index].push_back(block);
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

CachingAllocator::Pool CachingAllocator::open_pool() {
  const std::lock_guard lock(mutex_);
  TANDEM_CHECK(!open_, "a memory pool is open already");
  opener_ = std::this_thread::get_id();
  return open_ = ++last_;
}

void CachingAllocator::close_pool() {
  const std::lock_guard lock(mutex_);
  open_ = 0;
}

void CachingAllocator::drop_pool(Pool pool) {
  const std::lock_guard lock(mutex_);
  split_.drop_pool(pool);
  for (std::size_t i = 0; i < free_.size(); ++i) {
    auto& blocks = pools_[pool][i];
    free_[i].insert(free_[i].end(), blocks.begin(), blocks.end());
  }
  pools_.erase(pool);
  std::erase_if(owner_, [pool](const auto& entry) { return entry.second == pool; });
}

// New memory counts as cached until somebody has it.
void* CachingAllocator::allocate_from_source(std::size_t bytes) {
  void* block = source_.allocate(bytes);
  if (!block) return nullptr;
  ++stats_.system_requests;
  stats_.system_bytes += bytes;
  stats_.bytes_cached += bytes;
  return block;
}

// Blocks of pools are not released, because recorded kernels know their addresses.
void CachingAllocator::release_cached() {
  for (std::size_t i = 0; i < free_.size(); ++i) {
    if (free_[i].empty()) continue;
    const std::size_t bytes =
        size_class((std::size_t{1} << i / most_steps) / most_steps * (most_steps + i % most_steps)).bytes;
    for (void* block : free_[i]) source_.release(block, bytes);
    stats_.bytes_cached -= bytes * free_[i].size();
    free_[i].clear();
  }
  for (const auto& [slab, bytes] : split_.take_unused_slabs()) {
    source_.release(slab, bytes);
    stats_.bytes_cached -= bytes;
  }
}

}  // namespace tandem

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
  const SizeClass wanted = size_class(bytes);
  const std::lock_guard lock(mutex_);
  auto& free = (open_ ? pools_[open_] : free_)[wanted.index];
  void* block = nullptr;
  if (free.empty()) {
    block = from_source(wanted);
    if (!block) {
      release_cached();
      block = from_source(wanted);
    }
    TANDEM_CHECK(block, "out of memory: ", bytes, " bytes are not to be had", source_.situation(), "; ",
                 stats_.bytes_in_use, " bytes are in use; use a smaller batch or model");
    if (open_) owner_[block] = open_;
  } else {
    block = free.back();
    free.pop_back();
    stats_.bytes_cached -= wanted.bytes;
  }
  source_.set_in_use(block, bytes, wanted.bytes);
  stats_.bytes_in_use += wanted.bytes;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  return block;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes) {
  const SizeClass given = size_class(bytes);
  const std::lock_guard lock(mutex_);
  source_.set_in_use(block, 0, given.bytes);
  const auto owner = owner_.find(block);
  (owner == owner_.end() ? free_ : pools_[owner->second])[given.index].push_back(block);
  stats_.bytes_in_use -= given.bytes;
  stats_.bytes_cached += given.bytes;
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

CachingAllocator::Pool CachingAllocator::open_pool() {
  const std::lock_guard lock(mutex_);
  TANDEM_CHECK(!open_, "a memory pool is open already");
  return open_ = ++last_;
}

void CachingAllocator::close_pool() {
  const std::lock_guard lock(mutex_);
  open_ = 0;
}

void CachingAllocator::drop_pool(Pool pool) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < free_.size(); ++i) {
    auto& blocks = pools_[pool][i];
    free_[i].insert(free_[i].end(), blocks.begin(), blocks.end());
  }
  pools_.erase(pool);
  std::erase_if(owner_, [pool](const auto& entry) { return entry.second == pool; });
}

void* CachingAllocator::from_source(SizeClass wanted) {
  void* block = source_.allocate(wanted.bytes);
  if (!block) return nullptr;
  ++stats_.system_requests;
  stats_.system_bytes += wanted.bytes;
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
}

}  // namespace tandem

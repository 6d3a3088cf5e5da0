#include <tandem/core/base/check.h>
#include <tandem/core/device/gpu_allocator.h>

namespace tandem {

CachingAllocator::Block GpuAllocator::take(std::size_t bytes) {
  if (bytes < large) {
    const SizeClass wanted = size_class(bytes);
    return {take_of_size_class(wanted), wanted.bytes};
  }
  void* const block = split_off(aligned(bytes));
  return {block, block ? split_.size_of(block) : 0};
}

// A pool adopts cached blocks before it allocates new ones. Otherwise the cached blocks would lie unused while the pool
// lives.
void* GpuAllocator::take_of_size_class(SizeClass wanted) {
  const Pool open = pool_of_this_thread();
  auto* const pool = open ? &pools_[open][wanted.index] : nullptr;
  const bool adopts = pool && pool->empty();
  void* const block = take_from(pool && !adopts ? *pool : free_[wanted.index], wanted.bytes);
  if (adopts && block) owner_[block] = open;
  return block;
}

void* GpuAllocator::split_off(std::size_t bytes) {
  // `least` is the minimum size of a slab, so that several blocks fit into it. Larger slabs are multiples of `unit`.
  constexpr std::size_t least = std::size_t{20} << 20, unit = std::size_t{2} << 20;
  const Pool open = pool_of_this_thread();
  if (void* const block = split_.take(bytes, open, open)) return block;
  if (void* const block = open ? split_.take(bytes, 0, open) : nullptr) return block;
  std::size_t size = bytes < least / 2 ? least : (bytes + unit - 1) / unit * unit;
  void* slab = from_source(size);
  if (!slab) slab = from_source(size = bytes);
  if (!slab) {
    release_cached();
    slab = from_source(size);
  }
  if (!slab) return nullptr;
  split_.add_slab(slab, size, open);
  return split_.take(bytes, open, open);
}

std::size_t GpuAllocator::give_back(void* block, std::size_t bytes) {
  if (bytes >= large) {
    const std::size_t given = split_.size_of(block);
    split_.give_back(block);
    return given;
  }
  const auto owner = owner_.find(block);
  if (owner == owner_.end()) return CachingAllocator::give_back(block, bytes);
  const SizeClass of = size_class(bytes);
  pools_[owner->second][of.index].push_back(block);
  return of.bytes;
}

GpuAllocator::Pool GpuAllocator::open_pool() {
  const std::lock_guard lock(mutex_);
  TANDEM_CHECK(!open_, "a memory pool is already open");
  opener_ = std::this_thread::get_id();
  return open_ = ++last_;
}

void GpuAllocator::close_pool() {
  const std::lock_guard lock(mutex_);
  open_ = 0;
}

void GpuAllocator::drop_pool(Pool pool) {
  const std::lock_guard lock(mutex_);
  split_.drop_pool(pool);
  for (std::size_t i = 0; i < free_.size(); ++i) {
    auto& blocks = pools_[pool][i];
    free_[i].insert(free_[i].end(), blocks.begin(), blocks.end());
  }
  pools_.erase(pool);
  std::erase_if(owner_, [pool](const auto& entry) { return entry.second == pool; });
}

// Does not release the blocks of pools, because recorded kernels use their addresses.
void GpuAllocator::release_cached() {
  CachingAllocator::release_cached();
  for (const auto& [slab, bytes] : split_.take_unused_slabs()) release(slab, bytes);
}

}  // namespace tandem

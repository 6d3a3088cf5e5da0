// GpuAllocator: the allocator of a GPU. A GPU's memory is small compared with the arrays in it, and its steps can be
// recorded as a graph.
#pragma once

#include <tandem/core/device/caching_allocator.h>
#include <tandem/core/device/split_blocks.h>

#include <thread>
#include <unordered_map>

namespace tandem {

// Requests of 1 MiB and more have no size classes: their blocks are split from larger blocks and merged again
// (split_blocks.h).
//
// Between open_pool() and close_pool(), requests of the thread that opened the pool are served from that pool. The pool
// first adopts cached blocks, which earlier steps freed, and then allocates new ones. No other code gets the pool's
// blocks before drop_pool(), so a recorded sequence of kernels finds its memory at the same addresses. Only one pool
// can be open at a time.
class GpuAllocator final : public CachingAllocator {
 public:
  using CachingAllocator::CachingAllocator;
  using Pool = int;
  Pool open_pool();
  void close_pool();
  void drop_pool(Pool pool);

 private:
  Block take(std::size_t bytes) override;
  std::size_t give_back(void* block, std::size_t bytes) override;
  void release_cached() override;
  Pool pool_of_this_thread() const { return opener_ == std::this_thread::get_id() ? open_ : 0; }
  void* take_of_size_class(SizeClass wanted);
  void* split_off(std::size_t bytes);

  // mutex_ guards these members.
  SplitBlocks split_;
  std::unordered_map<Pool, FreeLists> pools_;
  std::unordered_map<void*, Pool> owner_;  // the pool of each block that belongs to one
  Pool open_ = 0;                          // the open pool, or 0
  std::thread::id opener_;                 // the thread that opened it
  Pool last_ = 0;
};

}  // namespace tandem

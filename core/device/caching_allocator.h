// CachingAllocator: blocks that come back wait for the next request of their size class, so that after its first step a
// training loop asks the system for nothing.
#pragma once

#include <tandem/core/device/memory_stats.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tandem {

// Where memory comes from: the C library, or a GPU's driver.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // nullptr: there is none
  virtual void release(void* block, std::size_t bytes) = 0;
  // The first `used` of the `whole` bytes of a block are handed out from now on, the others are not.
  virtual void set_in_use(void* /*block*/, std::size_t /*used*/, std::size_t /*whole*/) {}
  virtual std::string situation() const { return ""; }  // for the error: how much there is, how much is free
};

// Requests are rounded up to size classes, four per power of two: at most a quarter is wasted, and a block serves every
// later request of its class. What is cached goes back to the source only when the source has nothing left. A block may
// be handed out again at once: on a device whose work runs later, in stream order, all users must share one stream. Any
// thread may call any method.
class CachingAllocator {
 public:
  // Blocks are multiples of `alignment`, a power of two. `source` stays alive.
  CachingAllocator(MemorySource& source, std::size_t alignment) : source_(source), alignment_(alignment) {}

  void* allocate(std::size_t bytes);
  void deallocate(void* block, std::size_t bytes);
  MemoryStats stats() const;

  // Between open_pool and close_pool, requests are served from a pool of their own, whose blocks nobody else gets
  // before drop_pool: a recorded sequence of kernels finds its memory where it was. One pool can be open at a time.
  using Pool = int;
  Pool open_pool();
  void close_pool();
  void drop_pool(Pool pool);

 private:
  struct SizeClass {
    std::size_t index, bytes;
  };
  using FreeLists = std::array<std::vector<void*>, 256>;

  SizeClass size_class(std::size_t bytes) const;
  void* from_source(SizeClass wanted);
  void release_cached();

  MemorySource& source_;
  const std::size_t alignment_;
  mutable std::mutex mutex_;
  FreeLists free_;
  std::unordered_map<Pool, FreeLists> pools_;
  std::unordered_map<void*, Pool> owner_;  // of the blocks of pools
  Pool open_ = 0;                          // 0: none
  Pool last_ = 0;
  MemoryStats stats_;
};

}  // namespace tandem

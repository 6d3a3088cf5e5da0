// CachingAllocator: keeps blocks that are given back for the next request of their size class. After its first step, a
// training loop therefore asks the system for no more memory.
#pragma once

#include <tandem/core/device/memory_stats.h>
#include <tandem/core/device/split_blocks.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tandem {

// Where memory comes from: the C library, or a GPU's driver.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // nullptr when there is no memory left
  virtual void release(void* block, std::size_t bytes) = 0;
  // From now on the first `used` of the `whole` bytes of a block are handed out, and the others are not.
  virtual void set_in_use(void* /*block*/, std::size_t /*used*/, std::size_t /*whole*/) {}
  // For the "out of memory" error: how much memory there is and how much is free.
  virtual std::string situation() const { return ""; }
};

// Requests are rounded up to size classes, of which each power of two has four: 1, 1.25, 1.5 and 1.75 times the power.
// From 1 MiB on it has sixteen, because large blocks are what fills a memory. The size of a class is also rounded up to
// a multiple of the alignment. So at most a quarter of a small request and a sixteenth of a large one is wasted, or at
// most `alignment` bytes where that is more. A block serves every later request of its class. Cached blocks go
// back to the source only when the source has no memory left.
//
// On a GPU, whose memory is small beside its arrays, requests of 1 MiB and more have no classes: blocks for them are
// cut from larger ones and joined again (split_blocks.h).
//
// A block may be handed out again at once. On a device whose work runs later, in stream order, all users must therefore
// share one stream. Any thread may call any method.
class CachingAllocator {
 public:
  // The size of a block is a multiple of `alignment` (bytes), which is a power of two. `splits`: large blocks are cut
  // from larger ones. `source` must outlive the allocator.
  CachingAllocator(MemorySource& source, std::size_t alignment, bool splits = false)
      : source_(source), alignment_(alignment), splits_(splits) {}

  void* allocate(std::size_t bytes);
  void deallocate(void* block, std::size_t bytes);
  MemoryStats stats() const;

  // Between open_pool and close_pool, requests of the thread that opened it are served from a pool of their own, into
  // which cached blocks go before new ones: those of the steps that ran before one was recorded. Nobody else gets the
  // pool's blocks before drop_pool, so a recorded sequence of kernels finds its memory where it was. Only one pool can
  // be open at a time.
  using Pool = int;
  Pool open_pool();
  void close_pool();
  void drop_pool(Pool pool);

 private:
  struct SizeClass {
    std::size_t index, bytes;
  };
  static constexpr std::size_t large = std::size_t{1} << 20, most_steps = 16;
  using FreeLists = std::array<std::vector<void*>, 64 * most_steps>;

  SizeClass size_class(std::size_t bytes) const;
  bool is_split(std::size_t bytes) const { return splits_ && bytes >= large; }
  void* allocate_from_source(std::size_t bytes);
  Pool pool_of_this_thread() const { return opener_ == std::this_thread::get_id() ? open_ : 0; }
  void* of_size_class(SizeClass wanted);
  void* split_off(std::size_t bytes);
  void release_cached();

  MemorySource& source_;
  const std::size_t alignment_;
  const bool splits_;
  mutable std::mutex mutex_;  // guards what follows, and the calls of source_
  SplitBlocks split_;
  FreeLists free_;
  std::unordered_map<Pool, FreeLists> pools_;
  std::unordered_map<void*, Pool> owner_;  // the pool of each block that belongs to one
  Pool open_ = 0;                          // the pool that is open; 0 when none is
  std::thread::id opener_;                 // the thread that opened it
  Pool last_ = 0;
  MemoryStats stats_;
};

}  // namespace tandem

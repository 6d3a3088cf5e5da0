// CachingAllocator: keeps blocks that are given back for the next request of their size class. After its first step, a
// training loop therefore asks the system for no more memory.
#pragma once

#include <tandem/core/device/memory_stats.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

namespace tandem {

// Where memory comes from: the C library, or a GPU's driver.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // nullptr when there is no memory left
  virtual void release(void* block, std::size_t bytes) = 0;
  // A number of blocks has been released.
  virtual void trimmed() {}
  // From now on the first `used` of the `whole` bytes of a block are handed out, and the others are not.
  virtual void set_in_use(void* /*block*/, std::size_t /*used*/, std::size_t /*whole*/) {}
  // For the "out of memory" error: how much memory there is and how much is free.
  virtual std::string situation() const { return ""; }
};

// Requests are rounded up to size classes, of which each power of two has four: 1, 1.25, 1.5 and 1.75 times the power.
// From 1 MiB on it has sixteen, because large blocks are what fills a memory. The size of a class is also rounded up to
// a multiple of the alignment. So at most a quarter of a small request and a sixteenth of a large one is wasted, or at
// most `alignment` bytes where that is more. A block serves every later request of its class. Cached blocks go
// back to the source when the source has no memory left, and when they are more than `most_cached` bytes and more than
// was lately in use at once: first those of the class that was asked for the longest ago. So steps of one shape keep
// their blocks, and steps of ever new shapes do not fill the memory. A GPU's allocator differs (gpu_allocator.h).
//
// A block may be handed out again at once. On a device whose work runs later, in stream order, all users must therefore
// share one stream. Any thread may call any method.
class CachingAllocator {
 public:
  // The size of a block is a multiple of `alignment` (bytes), which is a power of two. `source` must outlive the
  // allocator.
  CachingAllocator(MemorySource& source, std::size_t alignment, std::size_t most_cached = no_limit)
      : source_(source), alignment_(alignment), most_cached_(most_cached) {}
  virtual ~CachingAllocator() = default;

  void* allocate(std::size_t bytes);
  void deallocate(void* block, std::size_t bytes);
  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();

 protected:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t large = std::size_t{1} << 20, most_steps = 16;
  using FreeLists = std::array<std::vector<void*>, 64 * most_steps>;
  struct SizeClass {
    std::size_t index, bytes;
  };
  struct Block {
    void* data;  // nullptr when there is no memory left
    std::size_t bytes;
  };

  // The caller of these methods holds mutex_.
  virtual Block take(std::size_t bytes);
  virtual std::size_t give_back(void* block, std::size_t bytes);  // returns the size of the block
  virtual void release_cached();
  SizeClass size_class(std::size_t bytes) const;
  std::size_t aligned(std::size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  void* take_from(std::vector<void*>& free, std::size_t bytes);  // a new block where none is free
  void* from_source(std::size_t bytes);                          // nullptr when there is no memory left
  void release(void* block, std::size_t bytes);

  mutable std::mutex mutex_;  // guards what follows, and the calls of source_
  FreeLists free_;

 private:
  MemorySource& source_;
  const std::size_t alignment_;
  const std::size_t most_cached_;
  MemoryStats stats_;

  void note_use();
  void trim();
  void release_class(std::size_t index);
  std::uint64_t requests_ = 0;
  std::array<std::uint64_t, std::tuple_size_v<FreeLists>> last_request_{};  // of each class: its number
  std::uint64_t peak_now_ = 0, peak_before_ = 0;  // of bytes in use, among the requests of this period and the last
};

}  // namespace tandem

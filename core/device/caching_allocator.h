// CachingAllocator: keeps freed blocks for later requests of the same size class. A training loop therefore usually
// allocates no more system memory after its first step.
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

// The source of memory: the C library, or a GPU's driver.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // returns nullptr if there is no memory left
  virtual void release(void* block, std::size_t bytes) = 0;
  // Called after some blocks have been released.
  virtual void trimmed() {}
  // Called when the first `used` of the `whole` bytes of a block come into use and the rest do not.
  virtual void set_in_use(void* /*block*/, std::size_t /*used*/, std::size_t /*whole*/) {}
  // For the "out of memory" error: says how much memory there is and how much is free.
  virtual std::string situation() const { return ""; }
};

// Requests are rounded up to size classes. Each power of two has four: 1, 1.25, 1.5 and 1.75 times the power. From 1
// MiB on it has sixteen, because large blocks take most of the memory. The size of a class is also rounded up to a
// multiple of the alignment. At most a quarter of a small request and a sixteenth of a large one is therefore wasted,
// or at most `alignment` bytes if that is more. A block serves later requests of its class. Cached blocks return to the
// source if the source has no memory left, or if they exceed both `most_cached` bytes and the recent peak of bytes in
// use. The class that was requested least recently is released first. Steps with constant shapes thus keep their
// blocks, and steps with ever-changing shapes do not fill the memory. A GPU's allocator differs (gpu_allocator.h).
//
// A freed block may be reused at once. On a device that runs work later, in stream order, all users must therefore
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
    void* data;  // nullptr if there is no memory left
    std::size_t bytes;
  };

  // The caller of these methods holds mutex_.
  virtual Block take(std::size_t bytes);
  virtual std::size_t give_back(void* block, std::size_t bytes);  // returns the size of the block
  virtual void release_cached();
  SizeClass size_class(std::size_t bytes) const;
  std::size_t aligned(std::size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  void* take_from(std::vector<void*>& free, std::size_t bytes);  // returns a new block if none is free
  void* from_source(std::size_t bytes);                          // returns nullptr if there is no memory left
  void release(void* block, std::size_t bytes);

  mutable std::mutex mutex_;  // guards the members below and the calls to source_
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
  std::array<std::uint64_t, std::tuple_size_v<FreeLists>> last_request_{};  // of each class: its request number
  std::uint64_t peak_now_ = 0, peak_before_ = 0;  // peaks of bytes in use, in this and the previous period
};

}  // namespace tandem

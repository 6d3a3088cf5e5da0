// A caching allocator. Requests are rounded up to size classes (four per power of two, so at most a quarter is wasted) and
// blocks that come back wait in the class's list for the next request: after the first step a training loop asks the
// system for nothing.
#include <tandem/core/cpu/cpu_backend.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tandem {

namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector

// Tells the address sanitizer which bytes of a block belong to somebody: it knows only what comes from the system.
void set_in_use([[maybe_unused]] void* block, [[maybe_unused]] std::size_t used,
                [[maybe_unused]] std::size_t whole) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(block, used);
  __asan_poison_memory_region(static_cast<char*>(block) + used, whole - used);
#endif
}

struct SizeClass {
  std::size_t index, bytes;
};

SizeClass size_class(std::size_t bytes) {
  bytes = std::max(bytes, alignment);
  const std::size_t step = std::bit_floor(bytes) / 4;
  const std::size_t rounded = (bytes + step - 1) / step * step;
  const auto power = static_cast<std::size_t>(std::bit_width(rounded) - 1);
  return {power * 4 + (rounded - std::bit_floor(rounded)) / (std::bit_floor(rounded) / 4), rounded};
}

class CachingAllocator {
 public:
  void* allocate(std::size_t bytes) {
    const SizeClass wanted = size_class(bytes);
    {
      std::lock_guard lock(mutex_);
      auto& free = free_[wanted.index];
      if (!free.empty()) {
        void* block = free.back();
        free.pop_back();
        set_in_use(block, bytes, system_size(wanted.bytes));
        return block;
      }
    }
    void* block = from_system(wanted.bytes);
    if (!block) {
      release_cached();
      block = from_system(wanted.bytes);
    }
    TANDEM_CHECK(block, "out of memory: ", bytes, " bytes are not to be had; use a smaller batch or model");
    std::lock_guard lock(mutex_);
    ++stats_.system_requests;
    stats_.system_bytes += system_size(wanted.bytes);
    set_in_use(block, bytes, system_size(wanted.bytes));
    return block;
  }

  void deallocate(void* block, std::size_t bytes) {
    const SizeClass size = size_class(bytes);
    set_in_use(block, 0, system_size(size.bytes));
    std::lock_guard lock(mutex_);
    free_[size.index].push_back(block);
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  static std::size_t system_size(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  static void* from_system(std::size_t bytes) { return std::aligned_alloc(alignment, system_size(bytes)); }

  void release_cached() {
    std::lock_guard lock(mutex_);
    for (auto& free : free_) {
      for (void* block : free) std::free(block);
      free.clear();
    }
  }

  std::mutex mutex_;
  std::vector<void*> free_[256];
  MemoryStats stats_;
};

// Never destroyed: Arrays with static storage may give memory back after main() has ended.
CachingAllocator& allocator() {
  static auto* instance = new CachingAllocator;
  return *instance;
}

}  // namespace

void* CpuBackend::allocate(std::size_t bytes) { return allocator().allocate(bytes); }
void CpuBackend::deallocate(void* data, std::size_t bytes) { allocator().deallocate(data, bytes); }
MemoryStats CpuBackend::memory_stats() const { return allocator().stats(); }

CpuBackend& cpu_backend() {
  static auto* instance = new CpuBackend;
  return *instance;
}

}  // namespace tandem

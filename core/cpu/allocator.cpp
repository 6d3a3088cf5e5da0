#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/device/caching_allocator.h>

#include <malloc.h>

#include <cstdlib>
#include <cstring>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tandem {

namespace {

constexpr std::size_t alignment = 64;  // bytes: a cache line, which is also the widest vector
// Any machine can spare this much, and a small network never reaches it.
constexpr std::size_t most_cached = std::size_t{256} << 20;

class HostMemory : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(alignment, bytes); }
  void release(void* block, std::size_t) override { std::free(block); }
  // The C library keeps freed memory, which the system would still count as used by this process.
  void trimmed() override { malloc_trim(0); }
  // Tells the address sanitizer which bytes are in use. On its own, it knows only the blocks that the C library
  // allocated.
  void set_in_use([[maybe_unused]] void* block, [[maybe_unused]] std::size_t used,
                  [[maybe_unused]] std::size_t whole) override {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(block, used);
    __asan_poison_memory_region(static_cast<char*>(block) + used, whole - used);
#endif
  }
};

}  // namespace

// The allocator is never destroyed, because Arrays with static storage may free memory after main() has ended.
CachingAllocator& CpuBackend::allocator() {
  static auto* source = new HostMemory;
  static auto* instance = new CachingAllocator(*source, alignment, most_cached);
  return *instance;
}

void CpuBackend::upload(const void* host, void* data, std::size_t bytes) { std::memcpy(data, host, bytes); }
void CpuBackend::download(const void* data, void* host, std::size_t bytes) { std::memcpy(host, data, bytes); }

}  // namespace tandem

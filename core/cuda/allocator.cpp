#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/device_memory.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/device/gpu_allocator.h>

#include <array>
#include <memory>
#include <mutex>

namespace tandem {

namespace cuda {
namespace {

constexpr std::size_t alignment = 512;  // bytes: a multiple of every vector and of what cuDNN asks for

class DeviceMemory : public MemorySource {
 public:
  explicit DeviceMemory(int index) : index_(index) {}
  void* allocate(std::size_t bytes) override {
    use_device(index_);
    void* block = nullptr;
    const cudaError_t status = cudaMalloc(&block, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which is reported by returning nullptr
      return nullptr;
    }
    check(status, "cudaMalloc");
    return block;
  }
  // Releasing a block waits until the GPU has done all its work.
  void release(void* block, std::size_t) override {
    use_device(index_);
    TANDEM_CUDA(cudaFree(block));
  }
  std::string situation() const override {
    std::size_t free = 0, total = 0;
    TANDEM_CUDA(cudaMemGetInfo(&free, &total));
    return " on cuda:" + std::to_string(index_) + ", of whose " + std::to_string(total) + " bytes " +
           std::to_string(free) + " are free";
  }

 private:
  const int index_;
};

}  // namespace

GpuAllocator& device_allocator(int index) {
  struct Memory {
    explicit Memory(int index) : source(index), allocator(source, alignment) {}
    DeviceMemory source;
    GpuAllocator allocator;
  };
  // The allocators are never destroyed, like the CPU's. Static Arrays may also outlive the driver.
  static auto* memories = new std::array<std::unique_ptr<Memory>, 64>;
  static std::mutex mutex;  // guards memories
  const std::lock_guard lock(mutex);
  auto& memory = memories->at(static_cast<std::size_t>(index));
  if (!memory) memory = std::make_unique<Memory>(index);
  return memory->allocator;
}

}  // namespace cuda

CachingAllocator& CudaBackend::allocator() { return cuda::device_allocator(index_); }

}  // namespace tandem

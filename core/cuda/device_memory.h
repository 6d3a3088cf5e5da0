// The memory of a GPU. Its CudaBackend allocates from here, and recorded graphs open pools here.
#pragma once

#include <tandem/core/device/gpu_allocator.h>

namespace tandem::cuda {

GpuAllocator& device_allocator(int index);

}  // namespace tandem::cuda

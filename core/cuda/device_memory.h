// The memory of a GPU: what its CudaBackend allocates from, and what recorded graphs open pools in.
#pragma once

#include <tandem/core/device/caching_allocator.h>

namespace tandem::cuda {

CachingAllocator& device_allocator(int index);

}  // namespace tandem::cuda

// Copies numbers from the host to a GPU, without making the host wait for the GPU.
#pragma once

#include <cstddef>

namespace tandem::cuda {

// Copies `bytes` from `host` to `data`, memory of GPU `device`, in the current stream. When the call returns, `host`
// may change, and the GPU may still be busy with earlier work. Throws an Error if the GPU fails. Any thread may call
// it.
//
// The numbers go through a ring of page-locked memory, which the GPU reads by itself. The ring grows up to 64 MiB: more
// than a batch of eight pictures of 480 x 480 with their masks. The call waits for the GPU only if the ring is full.
void upload(int device, const void* host, void* data, std::size_t bytes);

}  // namespace tandem::cuda

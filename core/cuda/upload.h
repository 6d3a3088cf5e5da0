// How numbers come from the host to a GPU without the host waiting for the GPU.
#pragma once

#include <cstddef>

namespace tandem::cuda {

// Copies `bytes` from `host` to `data`, memory of GPU `device`, in the current stream. When the call returns, `host`
// may change, and the GPU may still be busy with what was asked for before. Error when the GPU fails. Any thread may
// call.
//
// The numbers go through a ring of page-locked memory, which the GPU reads by itself. The ring grows up to 64 MiB: more
// than a batch of eight pictures of 480 x 480 with their masks. Only when it is full, the call waits for the GPU.
void upload(int device, const void* host, void* data, std::size_t bytes);

}  // namespace tandem::cuda

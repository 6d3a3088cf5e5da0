// Decides which writes of a block are visible to other blocks of its kernel. On a GPU, another block is certain to see
// a write to global memory only
//   - after the kernel, or
//   - if the writer calls __threadfence and then an atomic function, and the reader calls an atomic function and then
//     __threadfence ("fence-fence synchronization" of the CUDA C++ and PTX memory models).
// The emulated GPU hides all other writes. It treats a fence of one thread as a fence of the whole block, which is
// correct if a barrier precedes the fence. It ignores the addresses of the atomic functions.
#pragma once

namespace emulation {

// Call these before the first block of a kernel, after each block, and after the last one, on the GPU thread.
void begin_hiding_writes();
void hide_writes_of_block();
void show_all_writes();

}  // namespace emulation

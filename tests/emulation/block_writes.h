// Which writes of a block the other blocks of its kernel see. On a GPU, what a block writes into global memory is
// certain to be seen by another block only
//   - after the kernel, or
//   - when the writer calls __threadfence and then an atomic function, and the reader an atomic function and then
//     __threadfence ("fence-fence synchronization" of the CUDA C++ and PTX memory models).
// The emulated GPU hides all other writes. It takes a fence of one thread for one of the whole block, which a barrier
// before it makes true. It does not look at which addresses the atomic functions are for.
#pragma once

namespace emulation {

// Before the first block of a kernel, after each block, and after the last one. Called by the thread that is the GPU.
void begin_hiding_writes();
void hide_writes_of_block();
void show_all_writes();

}  // namespace emulation

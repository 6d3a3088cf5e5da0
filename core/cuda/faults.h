// What kernels found wrong with their input. They run long after the call that started them, so they leave a note, and
// the next synchronisation turns it into an Error.
#pragma once

#include <cstdint>

namespace tandem::cuda {

// In host memory that the GPU can write. row < 0: nothing is wrong.
struct Fault {
  std::int64_t row;
  std::int64_t target;
  std::int64_t classes;
};

// Of the current GPU; as kernels see it. A cross-entropy whose target is not a class writes it.
Fault* fault_of(int device);

// Error when there is a note, which is then forgotten. The GPU must have done its work.
void check_faults(int device);

}  // namespace tandem::cuda

// Records whether the contents of a GPU's memory are undefined, as after a collective operation that was aborted.
#pragma once

#include <exception>

namespace tandem::cuda {

// Says that the contents of GPU `device` are undefined, because of `cause`. Any thread may call.
void mark_undefined(int device, std::exception_ptr cause);

// Throws the cause if there is one, and then forgets it. Code that reads from the GPU calls this first.
void check_defined(int device);

}  // namespace tandem::cuda

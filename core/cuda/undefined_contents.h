// Whether the numbers on a GPU mean anything: after a collective operation was broken off, they don't.
#pragma once

#include <exception>

namespace tandem::cuda {

// What is on GPU `device` is undefined, because of `cause`. Any thread.
void mark_undefined(int device, std::exception_ptr cause);

// Throws the cause if there is one, which is then forgotten: who reads from the GPU asks here first.
void check_defined(int device);

}  // namespace tandem::cuda

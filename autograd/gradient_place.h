// Memory to which a backward closure may write a gradient directly, without a later copy or addition.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::autograd {

// Call this in a backward closure. It returns memory for the gradient of input number `input`, with the shape, dtype
// and device of that input. The memory is dense in any order, and its contents are undefined. A closure that fills the
// memory returns this Array as the gradient. The Array is undefined if there is no such memory. The memory exists if
// the input is a leaf whose gradient is a view of a communication bucket and receives no other gradient.
Array gradient_place(std::size_t input);

// Call this in a backward closure. It returns the gradient that other operations have computed for input number `input`
// so far, in memory that the closure may overwrite. It has the shape of the input, may have any dtype, and is row-major
// or channels last. The closure takes over this gradient: it must return the sum of it and its own gradient, otherwise
// the gradient is lost. The Array is undefined if there is no gradient yet, if its memory is in use, or if the input is
// a leaf.
Array take_gradient(std::size_t input);

}  // namespace tandem::autograd

// The memory that a backward closure may write a gradient to, so that no copy or addition is needed afterwards.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::autograd {

// To be called in a backward closure: memory for the gradient of input number `input`, with the shape, dtype and device
// of that input, dense in any order, and with any numbers in it. A closure that fills the memory returns this Array as
// the gradient. Undefined if there is no such memory. It exists if the input is a leaf whose gradient is a view of a
// communication bucket, and no other gradient is added to it.
Array gradient_place(std::size_t input);

// To be called in a backward closure: the gradient that other operations have given input number `input` so far, in
// memory that may be written over. It has the shape of the input, any dtype, and is row-major or channels last. It is
// handed over: the closure must return the sum of it and of its own gradient, or it is lost. The Array is undefined if
// there is no gradient yet, if its memory is in use, or if the input is a leaf.
Array take_gradient(std::size_t input);

}  // namespace tandem::autograd

// Element by element. Shapes broadcast. Operands of different dtype are promoted as in PyTorch: an array without
// dimensions counts only where it is of a higher kind (bool, integer, floating), a number likewise.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/number.h>
#include <tandem/core/device/backend.h>

namespace tandem::ops {

// The dtype of arithmetic with both.
DType result_dtype(const Array& a, const Array& b);
DType result_dtype(const Array& a, Number b);

// Integers become f32 first where `op` does not keep them.
Array map(const UnaryOp& op, const Array& x);
Array map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y);
// Bools are added by "or" and multiplied by "and"; integers are divided as f32.
Array zip(const BinaryOp& op, const Array& a, const Array& b);
Array zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y);
Array compare(const CompareOp& op, const Array& a, const Array& b);
Array compare(const CompareOp& op, const Array& x, Number number);
// condition ? a : b; condition is bool.
Array where(const Array& condition, const Array& a, const Array& b);

// The same in place, under the name `operation` in errors. Error when the result has another shape, or is of a kind
// that the target cannot hold.
void map_(const char* operation, const UnaryOp& op, const Array& x);
void zip_(const char* operation, const BinaryOp& op, const Array& target, const Array& b);
void add_(Array& target, const Array& addend);  // target += addend
void scale_(Array& target, double factor);      // target *= factor

}  // namespace tandem::ops

// Element-wise operations. Shapes broadcast. Operands of different dtypes are promoted as in PyTorch: a
// zero-dimensional array or a number affects the dtype only if it is of a higher kind (bool, integer, floating).
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/base/number.h>
#include <tandem/core/formulas/functors.h>

namespace tandem::ops {

// Returns the dtype of arithmetic with both operands.
DType result_dtype(const Array& a, const Array& b);
DType result_dtype(const Array& a, Number b);

// y = op(x). Integers are converted to f32 first, unless `op` supports integers.
Array map(const UnaryOp& op, const Array& x);
Array map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y);
// y = op(a, b). Adding bools computes "or", and multiplying them computes "and". Division converts integers to f32.
Array zip(const BinaryOp& op, const Array& a, const Array& b);
Array zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y);
Array compare(const CompareOp& op, const Array& a, const Array& b);
Array compare(const CompareOp& op, const Array& x, Number number);
// condition ? a : b; condition is bool.
Array where(const Array& condition, const Array& a, const Array& b);

// The same operations in place. `operation` is the name in errors. Throws an Error if the target's shape differs from
// the result's, or if the target's dtype can't represent the result's kind.
void map_(const char* operation, const UnaryOp& op, const Array& x);
void zip_(const char* operation, const BinaryOp& op, const Array& target, const Array& b);
void add_(Array& target, const Array& addend);  // target += addend
void scale_(Array& target, double factor);      // target *= factor

}  // namespace tandem::ops

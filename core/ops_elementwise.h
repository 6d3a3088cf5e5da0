// Element by element.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

// Element by element, broadcasting; operands of different dtype are promoted.
Array map(const UnaryOp& op, const Array& x);
Array map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y);
Array zip(const BinaryOp& op, const Array& a, const Array& b);
Array zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y);
Array compare(const CompareOp& op, const Array& a, const Array& b);
void add_(Array& target, const Array& addend);  // target += addend
void scale_(Array& target, double factor);      // target *= factor

}  // namespace tandem::ops

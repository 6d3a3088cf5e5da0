#include <tandem/core/ops_create.h>
#include <tandem/core/ops_elementwise.h>
#include <tandem/core/ops_reduce.h>

#include <cmath>

namespace tandem::ops {

namespace {

void check_same_device(const Array& a, const Array& b, const char* operation) {
  TANDEM_CHECK(a.device() == b.device(), operation, ": operands are on ", a.device(), " and ", b.device());
}

bool is_whole(double v) { return v == std::floor(v); }

void check_map(const UnaryOp& op, DType dtype) {
  if (is_floating(dtype)) return;
  const auto* affine = std::get_if<functors::Affine>(&op);
  TANDEM_CHECK(affine && dtype != DType::boolean, "element-wise operation: needs a floating dtype, got ",
               dtype);
  TANDEM_CHECK(is_whole(affine->scale) && is_whole(affine->shift), "arithmetic: ", dtype, " times ",
               affine->scale, " plus ", affine->shift,
               " would lose the fraction; convert the array to a floating dtype first");
}

Array empty_broadcast(const Array& a, const Array& b, const Shape& shape, DType dtype) {
  if (a.shape() == shape) return empty_like(a, dtype);
  if (b.shape() == shape) return empty_like(b, dtype);
  return Array::empty(shape, dtype, a.device());
}

}  // namespace

Array map(const UnaryOp& op, const Array& x) {
  check_map(op, x.dtype());
  Array y = empty_like(x);
  backend(x.device()).map(op, x, y);
  return y;
}

Array map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y) {
  Array grad_x = empty_like(grad_y);
  backend(grad_y.device()).map_grad(op, saved, grad_y, grad_x);
  return grad_x;
}

Array zip(const BinaryOp& op, const Array& a, const Array& b) {
  check_same_device(a, b, "element-wise operation");
  const Shape shape = broadcast_shape(a.shape(), b.shape(), "element-wise operation");
  const DType dtype = promote(a.dtype(), b.dtype());
  TANDEM_CHECK(dtype != DType::boolean, "arithmetic: needs numbers, got ", dtype);
  // An integer divided by zero ends the process.
  TANDEM_CHECK(is_floating(dtype) || !std::holds_alternative<functors::Div>(op),
               "division: needs a floating dtype, got ", a.dtype(), " and ", b.dtype());
  Array y = empty_broadcast(a, b, shape, dtype);
  backend(a.device()).zip(op, a.to(dtype).expand(shape), b.to(dtype).expand(shape), y);
  return y;
}

Array zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y) {
  const Shape& shape = grad_y.shape();
  const DType dtype = grad_y.dtype();
  Array grad = empty_like(grad_y);
  backend(grad_y.device())
      .zip_grad(op, operand, a.to(dtype).expand(shape), b.to(dtype).expand(shape), grad_y, grad);
  return sum_to(grad, operand == 0 ? a.shape() : b.shape());
}

Array compare(const CompareOp& op, const Array& a, const Array& b) {
  check_same_device(a, b, "comparison");
  const Shape shape = broadcast_shape(a.shape(), b.shape(), "comparison");
  const DType dtype = promote(a.dtype(), b.dtype());
  Array y = empty_broadcast(a, b, shape, DType::boolean);
  backend(a.device()).compare(op, a.to(dtype).expand(shape), b.to(dtype).expand(shape), y);
  return y;
}

void add_(Array& target, const Array& addend) {
  check_same_device(target, addend, "add_");
  TANDEM_CHECK(
      target.dtype() != DType::boolean && (is_floating(target.dtype()) || !is_floating(addend.dtype())),
      "add_: cannot add ", addend.dtype(), " to ", target.dtype(), " in place");
  backend(target.device())
      .zip(functors::Add{}, target, addend.to(target.dtype()).expand(target.shape()), target);
  target.storage()->written_by("add_");
}

void scale_(Array& target, double factor) {
  check_map(functors::Affine{factor, 0}, target.dtype());
  backend(target.device()).map(functors::Affine{factor, 0}, target, target);
  target.storage()->written_by("scale_");
}

}  // namespace tandem::ops

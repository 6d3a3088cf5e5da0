#include <tandem/core/array/overlap.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/reduce.h>

#include <cmath>

namespace tandem::ops {

namespace {

void check_same_device(const Array& a, const Array& b, const char* operation) {
  TANDEM_CHECK(a.device() == b.device(), operation, ": operands are on ", a.device(), " and ", b.device());
}

bool is_whole(double v) { return v == std::floor(v); }

// Returns the kind of a dtype: 0 for bool, 1 for integer, 2 for floating.
int kind_of(DType dtype) { return dtype == DType::boolean ? 0 : is_floating(dtype) ? 2 : 1; }

// The ways in which an operation handles integers.
enum class OnIntegers { computes, gives_f32, changes_nothing };

OnIntegers on_integers(const UnaryOp& op) {
  return std::visit(
      [](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        if constexpr (std::is_base_of_v<functors::Floor, F>) return OnIntegers::changes_nothing;
        else return keeps_integers<F> ? OnIntegers::computes : OnIntegers::gives_f32;
      },
      op);
}

// Checks the constants of arithmetic on integers: none of them may have a fraction.
void check_integer_arithmetic(const UnaryOp& op, DType dtype) {
  if (is_floating(dtype)) return;
  TANDEM_CHECK(dtype != DType::boolean, "arithmetic: needs numbers, got ", dtype);
  if (const auto* affine = std::get_if<functors::Affine>(&op))
    TANDEM_CHECK(is_whole(affine->scale) && is_whole(affine->shift), "arithmetic: ", dtype, " times ", affine->scale,
                 " plus ", affine->shift, " would lose the fraction; convert the array to a floating dtype first");
  if (const auto* power = std::get_if<functors::Power>(&op))
    TANDEM_CHECK(is_whole(power->exponent) && power->exponent >= 0, "pow: ", dtype, " to the power of ",
                 power->exponent, " is not an integer; convert the array to a floating dtype first");
}

Array empty_broadcast(const Array& a, const Array& b, const Shape& shape, DType dtype) {
  if (a.shape() == shape) return empty_like(a, dtype);
  if (b.shape() == shape) return empty_like(b, dtype);
  return Array::empty(shape, dtype, a.device());
}

// Views bools as the bytes 0 and 1. The maximum of two is their "or", and the minimum is their "and".
Array as_bytes(const Array& a) {
  return a.dtype() == DType::boolean ? Array(a.storage(), a.shape(), a.strides(), a.offset(), DType::u8) : a;
}

BinaryOp on_bools(const BinaryOp& op) {
  if (std::holds_alternative<functors::Add>(op)) return functors::Maximum{};
  if (std::holds_alternative<functors::Mul>(op)) return functors::Minimum{};
  TANDEM_CHECK(std::holds_alternative<functors::Maximum>(op) || std::holds_alternative<functors::Minimum>(op),
               "arithmetic: needs numbers, got bool; for bools use logical_and, logical_or or logical_xor");
  return op;
}

DType zip_dtype(const BinaryOp& op, const Array& a, const Array& b) {
  const DType dtype = result_dtype(a, b);
  if (const auto* add = std::get_if<functors::Add>(&op))
    TANDEM_CHECK(is_floating(dtype) || is_whole(add->alpha), "arithmetic: alpha ", add->alpha, " with ", a.dtype(),
                 " and ", b.dtype(), " would lose the fraction; convert one of them to a floating dtype first");
  const bool divides = std::holds_alternative<functors::Div>(op) || std::holds_alternative<functors::Atan2>(op);
  return divides && !is_floating(dtype) ? DType::f32 : dtype;
}

// Computes y = op(a, b), after converting a and b to y's dtype and broadcasting them to its shape.
void zip_into(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  if (y.numel() == 0) return;
  const Shape& shape = y.shape();
  if (y.dtype() == DType::boolean)
    return backend(y.device()).zip(on_bools(op), as_bytes(a).expand(shape), as_bytes(b).expand(shape), as_bytes(y));
  backend(y.device()).zip(op, a.to(y.dtype()).expand(shape), b.to(y.dtype()).expand(shape), y);
}

}  // namespace

DType result_dtype(const Array& a, const Array& b) {
  if ((a.ndim() == 0) == (b.ndim() == 0)) return promote(a.dtype(), b.dtype());
  const DType dimensioned = a.ndim() == 0 ? b.dtype() : a.dtype();
  const DType scalar = a.ndim() == 0 ? a.dtype() : b.dtype();
  return kind_of(scalar) > kind_of(dimensioned) ? promote(dimensioned, scalar) : dimensioned;
}

DType result_dtype(const Array& a, Number b) {
  if (is_floating(a.dtype())) return a.dtype();
  if (!b.is_integer) return DType::f32;
  return a.dtype() == DType::boolean ? DType::i64 : a.dtype();
}

Array map(const UnaryOp& op, const Array& x) {
  if (!is_floating(x.dtype())) {
    const OnIntegers on = on_integers(op);
    if (on == OnIntegers::gives_f32) return map(op, x.to(DType::f32));
    check_integer_arithmetic(op, x.dtype());
    if (on == OnIntegers::changes_nothing) return x.clone();
  }
  Array y = empty_like(x);
  if (x.numel() > 0) backend(x.device()).map(op, x, y);
  return y;
}

Array map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y) {
  Array grad_x = empty_like(grad_y);
  if (grad_y.numel() > 0) backend(grad_y.device()).map_grad(op, saved, grad_y, grad_x);
  return grad_x;
}

Array zip(const BinaryOp& op, const Array& a, const Array& b) {
  check_same_device(a, b, "element-wise operation");
  const Shape shape = broadcast_shape(a.shape(), b.shape(), "element-wise operation");
  Array y = empty_broadcast(a, b, shape, zip_dtype(op, a, b));
  zip_into(op, a, b, y);
  return y;
}

Array zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y) {
  const Shape& shape = grad_y.shape();
  const DType dtype = grad_y.dtype();
  Array grad = empty_like(grad_y);
  if (grad_y.numel() > 0)
    backend(grad_y.device()).zip_grad(op, operand, a.to(dtype).expand(shape), b.to(dtype).expand(shape), grad_y, grad);
  return sum_to(grad, operand == 0 ? a.shape() : b.shape());
}

Array compare(const CompareOp& op, const Array& a, const Array& b) {
  check_same_device(a, b, "comparison");
  const Shape shape = broadcast_shape(a.shape(), b.shape(), "comparison");
  const DType dtype = result_dtype(a, b);
  Array y = empty_broadcast(a, b, shape, DType::boolean);
  if (y.numel() > 0) backend(a.device()).compare(op, a.to(dtype).expand(shape), b.to(dtype).expand(shape), y);
  return y;
}

Array compare(const CompareOp& op, const Array& x, Number number) {
  const DType dtype = result_dtype(x, number);
  const Array numbers = x.dtype() == DType::boolean ? as_bytes(x).to(dtype) : x.to(dtype);
  Array y = empty_like(x, DType::boolean);
  if (y.numel() > 0) backend(x.device()).compare(op, numbers, number.value, y);
  return y;
}

Array where(const Array& condition, const Array& a, const Array& b) {
  check_same_device(a, b, "where");
  check_same_device(condition, a, "where");
  TANDEM_CHECK(condition.dtype() == DType::boolean, "where: the condition must be bool, got ", condition.dtype(),
               "; compare it with a number first");
  const Shape shape = broadcast_shape(condition.shape(), broadcast_shape(a.shape(), b.shape(), "where"), "where");
  const DType dtype = result_dtype(a, b);
  Array y = empty_broadcast(a, b, shape, dtype);
  if (y.numel() > 0)
    backend(a.device()).where(condition.expand(shape), a.to(dtype).expand(shape), b.to(dtype).expand(shape), y);
  return y;
}

void map_(const char* operation, const UnaryOp& op, const Array& x) {
  check_writable(x, operation);
  if (!is_floating(x.dtype())) {
    const OnIntegers on = on_integers(op);
    TANDEM_CHECK(on != OnIntegers::gives_f32, operation, ": the result is f32, which ", x.dtype(),
                 " can't hold; use the form that returns a new array");
    check_integer_arithmetic(op, x.dtype());
    if (on == OnIntegers::changes_nothing) return;
  }
  if (x.numel() > 0) backend(x.device()).map(op, x, x);
  x.storage()->written_by(operation);
}

void zip_(const char* operation, const BinaryOp& op, const Array& target, const Array& b) {
  check_same_device(target, b, operation);
  check_writable(target, operation);
  TANDEM_CHECK(broadcast_shape(target.shape(), b.shape(), operation) == target.shape(), operation, ": the result of ",
               target.shape(), " with ", b.shape(), " does not fit into ", target.shape());
  const DType dtype = zip_dtype(op, target, b);
  TANDEM_CHECK(kind_of(dtype) <= kind_of(target.dtype()), operation, ": ", target.dtype(), " with ", b.dtype(),
               " gives ", dtype, ", which ", target.dtype(), " can't hold");
  if (dtype != target.dtype()) {
    Array result = target;
    return result.copy_from(zip(op, target, b));
  }
  zip_into(op, target, overlap(target, b) ? b.clone() : b, target);
  target.storage()->written_by(operation);
}

void add_(Array& target, const Array& addend) { zip_("add_", functors::Add{}, target, addend); }

void scale_(Array& target, double factor) { map_("scale_", functors::Affine{factor}, target); }

}  // namespace tandem::ops

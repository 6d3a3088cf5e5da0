// Losses that compare pairs of numbers (loss.h).
#include <tandem/core/array/memory_order.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/loss.h>
#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

namespace {

// Both operands of a pair loss, dense in one common memory order.
struct Pair {
  MemoryOrder order;
  Array x, target;
  Pair(const Array& a, const Array& b) : order(a), x(order.apply(a)), target(order.apply(b)) {}
};

Pair pair_of(const Array& x, const Array& target, const char* name) {
  const Shape shape = broadcast_shape(x.shape(), target.shape(), name);
  const DType dtype = promote(x.dtype(), target.dtype());
  TANDEM_CHECK(is_floating(dtype), name, ": needs floating numbers, got ", x.dtype(), " and ", target.dtype());
  return {x.to(dtype).expand(shape), target.to(dtype).expand(shape)};
}

}  // namespace

Array pair_loss(const PairLoss& loss, const Array& x, const Array& target, std::optional<double> scale,
                const char* name) {
  TANDEM_CHECK(x.device() == target.device(), name, ": input is on ", x.device(), ", target on ", target.device());
  const Pair pair = pair_of(x, target, name);
  const Array y = Array::empty(scale ? Shape{} : pair.x.shape(), pair.x.dtype(), x.device());
  backend(x.device()).pair_loss(loss, pair.x, pair.target, scale.value_or(1), y);
  return scale ? y : pair.order.restore(y);
}

Array pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target, const Array& grad_y,
                     std::optional<double> scale) {
  const Pair pair = pair_of(x, target, "loss");
  const Array grad = Array::empty(pair.x.shape(), pair.x.dtype(), x.device());
  const Array given = grad_y.to(grad.dtype());
  backend(x.device())
      .pair_loss_grad(loss, operand, pair.x, pair.target, scale ? given : pair.order.apply(given), scale.value_or(1),
                      grad);
  const Array& of = operand == 0 ? x : target;
  return sum_to(pair.order.restore(grad), of.shape()).to(of.dtype());
}

}  // namespace tandem::ops

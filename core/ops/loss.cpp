#include <tandem/core/array/memory_order.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/index_fault.h>
#include <tandem/core/ops/loss.h>
#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

namespace {

// Returns the index of dimension `dim` of x. A scalar counts as (1).
int row_dim(std::int64_t dim, const Array& x) { return normalize_dim(dim, std::max(1, x.ndim())); }

int class_dim(const Array& x) { return x.ndim() == 1 ? 0 : 1; }

}  // namespace

Array softmax(const Array& x, std::int64_t dim, bool logarithm) {
  TANDEM_CHECK(is_floating(x.dtype()), logarithm ? "log_softmax" : "softmax", ": needs a floating array, got ",
               x.shape(), ' ', x.dtype());
  const int d = row_dim(dim, x);
  const MemoryOrder order(x);
  const Array in = order.apply(x), y = Array::empty(in.shape(), x.dtype(), x.device());
  const int at = x.ndim() == 0 ? 0 : order.position(d);
  if (y.numel() > 0) backend(x.device()).softmax(logarithm, around(in, at), around(y, at));
  return order.restore(y);
}

Array softmax_grad(const Array& y, const Array& grad_y, std::int64_t dim, bool logarithm) {
  const int d = row_dim(dim, y);
  const MemoryOrder order(y);
  const Array out = order.apply(y), grad_x = Array::empty(out.shape(), y.dtype(), y.device());
  const int at = y.ndim() == 0 ? 0 : order.position(d);
  if (y.numel() > 0)
    backend(y.device()).softmax_grad(logarithm, around(out, at), around(order.apply(grad_y), at), around(grad_x, at));
  return order.restore(grad_x);
}

CrossEntropy cross_entropy(const Array& x, const Array& target, const Array& weight, const ClassLoss& how) {
  const char* name = how.is_log_probability ? "nll_loss" : "cross_entropy";
  TANDEM_CHECK(x.ndim() >= 1 && is_floating(x.dtype()), name,
               ": input must be (N, classes), (classes) or (N, classes, ", "...) and floating, got ", x.shape(), ' ',
               x.dtype());
  const int dim = class_dim(x);
  Shape rows;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != dim) rows.push_back(x.shape()[i]);
  TANDEM_CHECK(target.shape() == rows && target.dtype() == DType::i64, name, ": input ", x.shape(), " needs a target ",
               rows, " i64, got ", target.shape(), ' ', target.dtype());
  TANDEM_CHECK(target.device() == x.device(), name, ": input is on ", x.device(), ", target on ", target.device());
  const DType dtype = compute_dtype(x.dtype());
  Array weights;
  if (weight.defined()) {
    TANDEM_CHECK(weight.shape() == Shape{x.dim(dim)} && is_floating(weight.dtype()) && weight.device() == x.device(),
                 name, ": input ", x.shape(), " on ", x.device(), " needs a floating weight of shape (", x.dim(dim),
                 "), got ", weight.shape(), ' ', weight.dtype(), " on ", weight.device());
    weights = weight.to(dtype).contiguous();
  }
  const MemoryOrder order(x), row_order = order.without(dim);
  const Array wanted = row_order.apply(target);
  const bool is_reduced = how.reduction != LossReduction::none;
  CrossEntropy out{Array::empty(is_reduced ? Shape{} : wanted.shape(), dtype, x.device()), {}, {}};
  if (!how.is_log_probability) out.sums = Array::empty({2, wanted.numel()}, dtype, x.device());
  if (is_reduced) out.total_weight = Array::empty({}, dtype, x.device());
  const auto bad_row = backend(x.device())
                           .cross_entropy(how, around(order.apply(x), order.position(dim)), wanted,
                                          weights.defined() ? &weights : nullptr, out.loss, out.sums, out.total_weight);
  if (bad_row >= 0)
    fail(IndexFault{name, IndexFault::Kind::target_class, bad_row,
                    wanted.reshape({-1}).select(0, bad_row).to_vector<std::int64_t>()[0], x.dim(dim)});
  if (!is_reduced) out.loss = row_order.restore(out.loss);
  return out;
}

Array cross_entropy_grad(const CrossEntropy& forward, const Array& x, const Array& target, const Array& weight,
                         const ClassLoss& how, const Array& grad_loss) {
  const int dim = class_dim(x);
  const MemoryOrder order(x), row_order = order.without(dim);
  const Array in = order.apply(x), grad_x = Array::empty(in.shape(), x.dtype(), x.device());
  const Array weights = weight.defined() ? weight.to(compute_dtype(x.dtype())).contiguous() : Array();
  const Array grad = grad_loss.to(compute_dtype(x.dtype()));
  const int at = order.position(dim);
  if (x.numel() > 0)
    backend(x.device())
        .cross_entropy_grad(how, around(in, at), row_order.apply(target), weights.defined() ? &weights : nullptr,
                            forward.sums, forward.total_weight,
                            how.reduction == LossReduction::none ? row_order.apply(grad) : grad, around(grad_x, at));
  return order.restore(grad_x);
}

}  // namespace tandem::ops

#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_reduce.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

// `shape` with 1 in place of the dimensions that were reduced: what the gradient of a reduction broadcasts from.
Shape kept_shape(const Shape& shape, const Dims& dims) {
  Shape kept = dims.rank() == 0 ? Dims::filled(shape.rank(), 1) : shape;
  for (const auto d : dims) kept[normalize_dim(d, shape.rank())] = 1;
  return kept;
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  const ProfileRange range("sum");
  return record("sum", {x}, ops::reduce(Reduction::sum, x.value(), dims, keepdim),
                [shape = x.shape(), kept = kept_shape(x.shape(), dims)](
                    const Array& grad, Needs) -> Gradients { return {grad.reshape(kept).expand(shape)}; });
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  const ProfileRange range("mean");
  const Array value = ops::reduce(Reduction::mean, x.value(), dims, keepdim);
  const double share = static_cast<double>(value.numel()) / static_cast<double>(x.numel());
  return record(
      "mean", {x}, value,
      [shape = x.shape(), kept = kept_shape(x.shape(), dims), share](const Array& grad, Needs) -> Gradients {
        return {ops::map(functors::Affine{share, 0}, grad).reshape(kept).expand(shape)};
      });
}

Tensor amax(const Tensor& x, const Dims& dims, bool keepdim) {
  const ProfileRange range("amax");
  const Array kept = ops::reduce(Reduction::max, x.value(), dims, true);
  Array value = kept;
  if (!keepdim) value = ops::reduce(Reduction::max, x.value(), dims, false);
  return record("amax", {x}, value,
                [in = Saved("amax", x.value()), out = Saved("amax", kept), dims](const Array& grad,
                                                                                 Needs) -> Gradients {
                  const Array& highest = out;
                  const Array is_max = ops::compare(functors::Equal{}, in, highest).to(grad.dtype());
                  const Array count = ops::reduce(Reduction::sum, is_max, dims, true);
                  const Array share = ops::zip(functors::Div{}, grad.reshape(highest.shape()), count);
                  return {ops::zip(functors::Mul{}, is_max, share)};
                });
}

Array argmax(const Tensor& x, std::int64_t dim, bool keepdim) {
  const ProfileRange range("argmax");
  return ops::reduce(Reduction::argmax, x.value(), {dim}, keepdim);
}

}  // namespace tandem

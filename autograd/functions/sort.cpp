#include <tandem/autograd/functions/sort.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

#include <cmath>

namespace tandem {

using namespace autograd;

namespace {

// Records `found.values`, which were taken from x at `found.indices` along `dim`. The gradient goes back to those
// positions. `kept` is the shape of the indices with `dim` kept.
ValuesAndIndices picked(const char* name, const Tensor& x, const ops::Found& found, std::int64_t dim,
                        const Shape& kept) {
  const Tensor values =
      record(name, {x}, found.values,
             [indices = found.indices, dim, kept, shape = x.shape()](const Array& grad, Needs) -> Gradients {
               Array whole = ops::zeros(shape, grad.dtype(), grad.device());
               ops::scatter_(whole, dim, indices.reshape(kept), grad.reshape(kept));
               return {whole};
             });
  return {values, found.indices};
}

ValuesAndIndices search(const char* name, bool largest, const Tensor& x, std::int64_t dim, bool keepdim) {
  const Scope scope(name);
  return picked(name, x, ops::search(largest, x.value(), dim, keepdim), dim, ops::kept_shape(x.value(), {dim}, name));
}

}  // namespace

ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim) { return search("max", true, x, dim, keepdim); }
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim) { return search("min", false, x, dim, keepdim); }

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, const SortOptions& options) {
  const Scope scope("sort");
  return picked("sort", x, ops::sort(x.value(), dim, options.descending), dim, x.shape());
}

Array argsort(const Tensor& x, std::int64_t dim, const SortOptions& options) {
  const Scope scope("argsort");
  return ops::sort(x.value(), dim, options.descending).indices;
}

ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim) {
  const Scope scope("median");
  const Shape kept = ops::kept_shape(x.value(), {dim}, "median");
  return picked("median", x, ops::median(x.value(), dim, keepdim), dim, kept);
}

Tensor median(const Tensor& x) {
  const Scope scope("median");
  const bool is_empty = x.numel() == 0;
  TANDEM_CHECK(!is_empty || is_floating(x.dtype()), "median: ", x.dtype(), ' ', x.shape(), " has no elements");
  const Array y = is_empty ? ops::full({}, NAN, x.dtype(), x.device()) : ops::median(x.value().reshape({-1}), 0).values;
  return record(
      "median", {x}, y, [in = Saved("median", x.value()), out = Saved("median", y)](const Array& grad, Needs) {
        const Array& median = out;
        const Array equals = ops::compare(functors::Equal{}, in, median);
        const Array nans = ops::compare(functors::NotEqual{}, in, in);
        const Array shares = ops::where(ops::compare(functors::Equal{}, median, median), equals, nans).to(grad.dtype());
        return Gradients{
            ops::zip(functors::Mul{}, shares, ops::zip(functors::Div{}, grad, ops::reduce(Reduction::sum, shares)))};
      });
}

ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, const TopkOptions& options) {
  const Scope scope("topk");
  const ops::Found found = ops::topk(x.value(), k, dim, options.largest);
  return picked("topk", x, found, dim, found.values.shape());
}

}  // namespace tandem

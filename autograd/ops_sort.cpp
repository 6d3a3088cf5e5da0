#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_sort.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;

namespace {

// Values that were taken from x at `indices` along `dim`: the gradient goes back there. `kept`: the shape of the indices with
// `dim`.
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
  const ProfileRange range(name);
  return picked(name, x, ops::search(largest, x.value(), dim, keepdim), dim,
                ops::kept_shape(x.value(), {dim}, name));
}

}  // namespace

ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  return search("max", true, x, dim, keepdim);
}
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  return search("min", false, x, dim, keepdim);
}

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending, bool) {
  const ProfileRange range("sort");
  return picked("sort", x, ops::sort(x.value(), dim, descending), dim, x.shape());
}

Array argsort(const Tensor& x, std::int64_t dim, bool descending, bool) {
  const ProfileRange range("argsort");
  return ops::sort(x.value(), dim, descending).indices;
}

ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, bool) {
  const ProfileRange range("topk");
  const ops::Found found = ops::topk(x.value(), k, dim, largest);
  return picked("topk", x, found, dim, found.values.shape());
}

}  // namespace tandem

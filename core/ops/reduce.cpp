#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/into.h>
#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

Shape kept_shape(const Array& x, const Dims& dims, const char* operation) {
  const unsigned reduced = dims.ndim() == 0 ? ~0u : mask_of(dims, std::max(1, x.ndim()), operation);
  Shape kept = x.shape();
  for (int i = 0; i < x.ndim(); ++i)
    if (reduced >> i & 1u) kept[i] = 1;
  return kept;
}

Array without_reduced(const Array& kept, const Dims& dims) {
  return dims.ndim() == 0 ? kept.squeeze() : kept.squeeze(dims);
}

Array reduce(const Reduction& op, const Array& x, const Dims& dims, bool keepdim) {
  const auto [name, result_dtype, needs_elements] = op.rules(x.dtype());
  TANDEM_CHECK(result_dtype, name, ": needs a floating dtype, got ", x.dtype());
  const Shape kept = kept_shape(x, dims, name);
  const Array y = Array::empty(kept, *result_dtype, x.device());
  TANDEM_CHECK(x.numel() > 0 || y.numel() == 0 || !needs_elements, name, " of an empty array of shape ", x.shape(),
               " over dimensions ", dims, " is not defined");
  if (y.numel() > 0) backend(x.device()).reduce(op, x, y);
  return keepdim ? y : without_reduced(y, dims);
}

void reduce_into(const Reduction& op, const Array& x, const Array& y) {
  bool fits = x.ndim() == y.ndim() && x.numel() > 0 && x.device() == y.device();
  for (int i = 0; fits && i < x.ndim(); ++i) fits = y.shape()[i] == 1 || y.shape()[i] == x.shape()[i];
  TANDEM_CHECK(fits, op.rules(x.dtype()).name, ": a result of ", x.shape(), " can't be written into ", y.shape());
  backend(x.device()).reduce(op, x, y);
}

Array reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y) {
  const Array grad_x = empty_like(x);
  if (x.numel() > 0)
    backend(x.device())
        .reduce_grad(op, x, y.to(x.dtype()).expand(x.shape()), grad_y.to(x.dtype()).expand(x.shape()), grad_x);
  return grad_x;
}

Array sum_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int lead = x.ndim() - shape.ndim();
  Dims dims;
  for (int i = 0; i < x.ndim(); ++i)
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) dims.push_back(i);
  return dims.ndim() == 0 ? x.reshape(shape) : reduce(Reduction::sum, x, dims, true).reshape(shape);
}

Found search(bool largest, const Array& x, std::int64_t dim, bool keepdim) {
  const char* name = largest ? "max" : "min";
  const Shape kept = kept_shape(x, {dim}, name);
  if (x.ndim() == 0) return {x.clone(), zeros({}, DType::i64, x.device())};
  const Array values = Array::empty(kept, x.dtype(), x.device());
  const Array indices = Array::empty(kept, DType::i64, x.device());
  TANDEM_CHECK(x.dim(dim) > 0 || values.numel() == 0, name, ": dimension ", normalize_dim(dim, x.ndim()),
               " of an empty array of shape ", x.shape(), " has no elements, of which none is the ",
               largest ? "largest" : "smallest");
  if (values.numel() > 0) backend(x.device()).search(largest, x, normalize_dim(dim, x.ndim()), values, indices);
  return keepdim ? Found{values, indices} : Found{values.squeeze(dim), indices.squeeze(dim)};
}

namespace {

Array arg(bool largest, const Array& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (dim) return search(largest, x, *dim, keepdim).indices;
  TANDEM_CHECK(x.numel() > 0, largest ? "argmax" : "argmin", " of an empty array of shape ", x.shape(),
               " is not defined");
  const Array flat = search(largest, x.reshape({-1}), 0).indices;
  return keepdim ? flat.reshape(Dims::filled(x.ndim(), 1)) : flat;
}

Array scan(Scan op, const Array& x, std::int64_t dim, bool reversed) {
  const int d = normalize_dim(dim, std::max(1, x.ndim()));
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::i64;
  if (x.ndim() == 0) return dtype == x.dtype() ? x.clone() : x.to(dtype);
  const Array y = empty_like(x, dtype);
  if (x.numel() > 0) backend(x.device()).scan(op, x, d, reversed, y);
  return y;
}

}  // namespace

Array argmax(const Array& x, std::optional<std::int64_t> dim, bool keepdim) { return arg(true, x, dim, keepdim); }
Array argmin(const Array& x, std::optional<std::int64_t> dim, bool keepdim) { return arg(false, x, dim, keepdim); }

Array cumsum(const Array& x, std::int64_t dim, bool reversed) { return scan(Scan::sum, x, dim, reversed); }
Array cumprod(const Array& x, std::int64_t dim) { return scan(Scan::product, x, dim, false); }

}  // namespace tandem::ops

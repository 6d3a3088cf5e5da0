#include <tandem/core/array/array.h>
#include <tandem/core/array/memory_order.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/index.h>

#include <algorithm>
#include <cmath>

namespace tandem::ops {

namespace {

// Checks `index`, and converts it to the dtype and layout that the back-end needs.
Array checked_index(const Array& index, const Array& x, const char* operation) {
  TANDEM_CHECK(index.dtype() == DType::i64 || index.dtype() == DType::i32, operation,
               ": index must be i64 or i32, got ", index.dtype());
  TANDEM_CHECK(index.device() == x.device(), operation, ": index is on ", index.device(), ", the array on ",
               x.device());
  return index.to(DType::i64).contiguous();
}

// Like checked_index, for an index that is a list (N). A scalar counts as a list with one element.
Array checked_list(const Array& index, const Array& x, const char* operation) {
  TANDEM_CHECK(index.ndim() <= 1, operation, ": index must be (N), got ", index.shape());
  return checked_index(index, x, operation).reshape({-1});
}

// Returns a view of the list (N) along dimension `dim`, repeated over the other dimensions of `shape` by stride 0.
Array along(const Array& list, int dim, const Shape& shape) {
  Strides strides = Dims::filled(shape.ndim(), 0);
  strides[dim] = 1;
  return Array(list.storage(), shape, strides, list.offset(), list.dtype());
}

Array at_least_1d(const Array& x) { return x.ndim() == 0 ? x.reshape({1}) : x; }

// Returns the part of x that begins at its first element and has the sizes `sizes` in all dimensions except `dim`.
Array narrowed(const Array& x, int dim, const Shape& sizes) {
  Array result = x;
  for (int d = 0; d < x.ndim(); ++d)
    if (d != dim) result = result.narrow(d, 0, sizes[d]);
  return result;
}

void check_not_empty(const Array& x, int dim, const char* operation) {
  TANDEM_CHECK(x.shape()[dim] > 0, operation, ": no index is valid in the empty dimension ", dim, " of ", x.shape());
}

void fail_if_any(std::int64_t bad, const Array& index, const char* operation, std::int64_t count) {
  if (bad >= 0)
    fail(IndexFault{operation, IndexFault::Kind::element, bad, static_cast<const std::int64_t*>(index.raw())[bad],
                    count});
}

void check_sizes(const Array& index, const Array& other, int dim, bool also_dim, const char* what,
                 const char* operation) {
  TANDEM_CHECK(index.ndim() == other.ndim(), operation, ": index ", index.shape(), " and ", what, ' ', other.shape(),
               " must have the same number of dimensions");
  for (int d = 0; d < index.ndim(); ++d)
    TANDEM_CHECK((d == dim && !also_dim) || index.shape()[d] <= other.shape()[d], operation, ": index ", index.shape(),
                 " is larger than ", what, ' ', other.shape(), " in dimension ", d);
}

// REQUIRES: `index` is a result of checked_index() or along().
void scatter_into(Array& target, int dim, const Array& index, const Array& source, bool add, const char* operation) {
  TANDEM_CHECK(source.dtype() == target.dtype(), operation, ": the source is ", source.dtype(), ", the target ",
               target.dtype(), "; convert one of them");
  TANDEM_CHECK(source.device() == target.device(), operation, ": the source is on ", source.device(),
               ", the target on ", target.device());
  if (index.numel() == 0) return;
  check_not_empty(target, dim, operation);
  const DType dtype = target.dtype();
  const bool is_sixteen = dtype == DType::bf16 || dtype == DType::f16;
  if (add && (is_sixteen || dtype == DType::u8 || dtype == DType::boolean)) {
    const DType wide = is_sixteen ? DType::f32 : DType::i32;
    Array sum = target.to(wide);
    scatter_into(sum, dim, index, source.to(wide), add, operation);
    target.copy_from(sum);
    return;
  }
  Array y = narrowed(target, dim, index.shape()), from = narrowed(source, dim, index.shape());
  from = from.narrow(dim, 0, index.shape()[dim]);
  const std::int64_t count = y.shape()[dim];
  bool is_list = true;
  for (int d = 0; d < index.ndim(); ++d) is_list &= d == dim || index.shape()[d] == 1 || index.strides()[d] == 0;
  Array wanted = index;
  if (y.is_contiguous() && from.is_contiguous()) {
    y = around(y, dim);
    from = around(from, dim);
    wanted = is_list ? along(Array(index.storage(), {index.shape()[dim]}, {1}, index.offset(), index.dtype()), 1,
                             from.shape())
                     : around(index, dim);
    dim = 1;
  }
  const auto bad = backend(y.device()).scatter(from, dim, wanted, add, operation, y);
  target.storage()->written_by(operation);
  fail_if_any(bad, index, operation, count);
}

}  // namespace

Array index_select(const Array& x, std::int64_t dim, const Array& index, const char* operation) {
  const int d = normalize_dim(dim, std::max(x.ndim(), 1));
  const Array list = checked_list(index, x, operation);
  if (x.ndim() == 0) {
    TANDEM_CHECK(list.numel() == 1, operation, ": a scalar needs exactly one index, got ", index.shape());
    return index_select(at_least_1d(x), 0, list, operation).reshape({});
  }
  Shape shape = x.shape();
  shape[d] = list.numel();
  Array y = Array::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  check_not_empty(x, d, operation);
  fail_if_any(backend(x.device()).gather(x, d, along(list, d, shape), operation, y), list, operation, x.shape()[d]);
  return y;
}

Array gather(const Array& x, std::int64_t dim, const Array& index) {
  const Array wanted = checked_index(index, x, "gather");
  if (x.ndim() == 0 || index.ndim() == 0) {
    TANDEM_CHECK(x.ndim() <= 1 && index.ndim() <= 1, "gather: index ", index.shape(), " and x ", x.shape(),
                 " must have the same number of dimensions");
    return gather(at_least_1d(x), dim, at_least_1d(wanted)).reshape(index.shape());
  }
  const int d = normalize_dim(dim, x.ndim());
  check_sizes(index, x, d, false, "x", "gather");
  Array y = Array::empty(index.shape(), x.dtype(), x.device());
  if (y.numel() == 0) return y;
  check_not_empty(x, d, "gather");
  fail_if_any(backend(x.device()).gather(narrowed(x, d, index.shape()), d, wanted, "gather", y), wanted, "gather",
              x.shape()[d]);
  return y;
}

namespace {

void scatter_checked(Array& target, std::int64_t dim, const Array& index, const Array& source, bool add,
                     const char* operation) {
  const Array wanted = at_least_1d(checked_index(index, target, operation));
  Array y = at_least_1d(target);
  const int d = normalize_dim(dim, y.ndim());
  check_sizes(wanted, y, d, false, "the target", operation);
  const Array from = at_least_1d(source);
  check_sizes(wanted, from, d, true, "the source", operation);
  scatter_into(y, d, wanted, from, add, operation);
}

}  // namespace

void scatter_(Array& target, std::int64_t dim, const Array& index, const Array& source, const char* operation) {
  scatter_checked(target, dim, index, source, false, operation);
}
void scatter_add_(Array& target, std::int64_t dim, const Array& index, const Array& source) {
  scatter_checked(target, dim, index, source, true, "scatter_add");
}

void index_add_(Array& target, std::int64_t dim, const Array& index, const Array& source, const char* operation) {
  const Array list = checked_list(index, target, operation);
  Array y = at_least_1d(target);
  const Array from = at_least_1d(source);
  const int d = normalize_dim(dim, y.ndim());
  Shape shape = y.shape();
  shape[d] = list.numel();
  TANDEM_CHECK(from.shape() == shape, operation, ": the source must be ", shape, " for a target ", target.shape(),
               " and ", list.numel(), " indices along dimension ", d, ", got ", source.shape());
  scatter_into(y, d, along(list, d, shape), from, true, operation);
}

Shape masked_shape(const Array& x, const Array& mask, const char* operation) {
  TANDEM_CHECK(mask.dtype() == DType::boolean, operation, ": mask must be bool, got ", mask.dtype());
  TANDEM_CHECK(mask.device() == x.device(), operation, ": mask is on ", mask.device(), ", x on ", x.device());
  return broadcast_shape(x.shape(), mask.shape(), operation);
}

Array masked_fill(const Array& x, const Array& mask, Number number) {
  const double value = number.value;
  const Shape shape = masked_shape(x, mask, "masked_fill");
  TANDEM_CHECK(can_hold(x.dtype(), value) && (is_floating(x.dtype()) || value == std::trunc(value)),
               "masked_fill: ", value, " can't be represented as ", x.dtype());
  Array y = x.shape() == shape ? empty_like(x) : Array::empty(shape, x.dtype(), x.device());
  if (y.numel() > 0)
    backend(x.device())
        .where(mask.expand(shape), full({}, value, x.dtype(), x.device()).expand(shape), x.expand(shape), y);
  return y;
}

namespace {

// Returns the positions in `shape` at which the flat `mask` is true.
Array true_positions(const Array& mask, const Shape& shape) {
  const std::int64_t n = mask.numel(), chunks = (n + Backend::mask_chunk - 1) / Backend::mask_chunk;
  const Array before = Array::empty({chunks + 1}, DType::i64, mask.device());
  std::int64_t count = 0;
  if (n > 0) {
    backend(mask.device()).count_true(mask, before);
    count = before.select(0, chunks).to_vector<std::int64_t>()[0];
  }
  Array y = Array::empty({count, shape.ndim()}, DType::i64, mask.device());
  if (y.numel() > 0) backend(mask.device()).true_positions(mask, before, shape, y);
  return y;
}

}  // namespace

Array nonzero(const Array& x) { return true_positions(x.to(DType::boolean).contiguous().reshape({-1}), x.shape()); }

Array flat_nonzero(const Array& x) {
  return true_positions(x.to(DType::boolean).contiguous().reshape({-1}), {x.numel()}).reshape({-1});
}

Array one_hot(const Array& index, std::int64_t num_classes) {
  const Array wanted = checked_index(index, index, "one_hot");
  TANDEM_CHECK(num_classes >= -1 && num_classes != 0, "one_hot: num_classes must be positive, or -1 for the largest ",
               "index + 1, got ", num_classes);
  if (num_classes < 0) {
    TANDEM_CHECK(index.numel() > 0, "one_hot: index ", index.shape(), " is empty: specify num_classes");
    std::int64_t largest = 0;
    for (const auto i : wanted.to_vector<std::int64_t>()) largest = std::max(largest, i);
    TANDEM_CHECK(largest < Array::to_end, "one_hot: no array can have the index ", largest);
    num_classes = largest + 1;
  }
  Shape shape = index.shape();
  shape.push_back(num_classes);
  Array y = zeros(shape, DType::i64, index.device());
  scatter_(y, -1, wanted.unsqueeze(-1), scalar(1, DType::i64, index.device()).expand(wanted.unsqueeze(-1).shape()),
           "one_hot");
  return y;
}

}  // namespace tandem::ops

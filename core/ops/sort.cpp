#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/sort.h>

#include <algorithm>

namespace tandem::ops {

namespace {

Found first_k(const Array& x, std::int64_t k, int dim, bool descending) {
  const Array rows = x.transpose(dim, -1).contiguous();
  Shape shape = rows.shape();
  shape[shape.ndim() - 1] = k;
  const Array values = Array::empty(shape, x.dtype(), x.device());
  const Array indices = Array::empty(shape, DType::i64, x.device());
  if (values.numel() > 0) {
    const std::int64_t n = rows.dim(-1), count = rows.numel() / n;
    backend(x.device())
        .sort(rows.reshape({count, n}), descending, k, values.reshape({count, k}), indices.reshape({count, k}));
  }
  return {values.transpose(dim, -1), indices.transpose(dim, -1)};
}

}  // namespace

Found sort(const Array& x, std::int64_t dim, bool descending) {
  const int d = normalize_dim(dim, std::max(1, x.ndim()));
  if (x.ndim() == 0) return {x.clone(), zeros({}, DType::i64, x.device())};
  return first_k(x, x.shape()[d], d, descending);
}

Found topk(const Array& x, std::int64_t k, std::int64_t dim, bool largest) {
  const int d = normalize_dim(dim, std::max(1, x.ndim()));
  const std::int64_t n = x.ndim() == 0 ? 1 : x.shape()[d];
  TANDEM_CHECK(0 <= k && k <= n, "topk: k = ", k, " is not between 0 and ", n, ", the size of dimension ", d, " of ",
               x.shape());
  if (x.ndim() == 0) {
    TANDEM_CHECK(k == 1, "topk: k must be 1 for a scalar, got ", k);
    return {x.clone(), zeros({}, DType::i64, x.device())};
  }
  return first_k(x, k, d, largest);
}

Found median(const Array& x, std::int64_t dim, bool keepdim) {
  const int d = normalize_dim(dim, std::max(1, x.ndim()));
  if (x.ndim() == 0) return {x.clone(), zeros({}, DType::i64, x.device())};
  const std::int64_t n = x.dim(d), middle = (n - 1) / 2;
  TANDEM_CHECK(n > 0, "median: dimension ", d, " of ", x.shape(), " has no elements");
  const Found smallest = topk(x, middle + 1, d, false);
  Found found{smallest.values.slice(d, middle), smallest.indices.slice(d, middle)};
  if (is_floating(x.dtype())) {
    // A NaN is the largest number. If there is one, it is also the median.
    const Found largest = search(true, x, d, true);
    const Array is_nan = compare(functors::NotEqual{}, largest.values, largest.values);
    found = {where(is_nan, largest.values, found.values), where(is_nan, largest.indices, found.indices)};
  }
  return keepdim ? found : Found{found.values.squeeze(d), found.indices.squeeze(d)};
}

}  // namespace tandem::ops

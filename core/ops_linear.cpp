#include <tandem/core/ops_linear.h>

namespace tandem::ops {

Array matmul(const Array& a, const Array& b, const std::optional<Array>& bias) {
  TANDEM_CHECK(a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(0), "matmul: shapes ", a.shape(), " and ",
               b.shape(), " do not fit: needs (M, K) and (K, N)");
  TANDEM_CHECK(is_floating(a.dtype()) && is_floating(b.dtype()), "matmul: needs floating dtypes, got ",
               a.dtype(), " and ", b.dtype());
  TANDEM_CHECK(!bias || bias->shape() == Shape{b.dim(1)}, "matmul: bias has shape ",
               bias ? bias->shape() : Shape{}, ", expected (", b.dim(1), ")");
  TANDEM_CHECK(a.device() == b.device() && (!bias || bias->device() == a.device()),
               "matmul: operands must be on one device, got ", a.device(), " and ", b.device(),
               bias ? " and a bias" : "");
  Array y = Array::empty({a.dim(0), b.dim(1)}, a.dtype(), a.device());
  if (y.numel() > 0) backend(a.device()).matmul(a, b.to(a.dtype()), bias, y);
  return y;
}

}  // namespace tandem::ops

#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/distance.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/linear.h>
#include <tandem/autograd/functions/reduce.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/core/base/scope.h>

namespace tandem {

Tensor normalize(const Tensor& x, double p, std::int64_t dim, double eps) {
  const Scope scope("normalize");
  return x / clamp(norm(x, p, {dim}, true), eps);
}

Tensor cosine_similarity(const Tensor& left, const Tensor& right, std::int64_t dim, double eps) {
  const Scope scope("cosine_similarity");
  const Shape shape = broadcast_shape(left.shape(), right.shape(), "cosine_similarity");
  const Tensor a = expand(left, shape), b = expand(right, shape);
  return sum(normalize(a, 2, dim, eps) * normalize(b, 2, dim, eps), {dim});
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  const Scope scope("pairwise_distance");
  return norm(add(a - b, eps), p, {-1}, keepdim);
}

Tensor cdist(const Tensor& left, const Tensor& right, double p) {
  const Scope scope("cdist");
  const Tensor a = autocast_f32(left), b = autocast_f32(right);
  TANDEM_CHECK(a.shape().ndim() >= 2 && b.shape().ndim() >= 2 && a.dim(-1) == b.dim(-1), "cdist: shapes ", a.shape(),
               " and ", b.shape(), " do not fit: expected (..., P, M) and (..., R, M)");
  TANDEM_CHECK(is_floating(a.dtype()) && a.dtype() == b.dtype(),
               "cdist: operands must have the same floating dtype, got ", a.dtype(), " and ", b.dtype());
  TANDEM_CHECK(p >= 0, "cdist: p must be at least 0, got ", p);
  if (p != 2 || (a.dim(-2) <= 25 && b.dim(-2) <= 25)) return norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, {-1});
  // The squared distance is |a|^2 + |b|^2 - 2 a b. This sum loses digits to cancellation, so it is never computed in 16
  // bits.
  const Autocast exact(DType::f32);
  const DType dtype = promote(a.dtype(), DType::f32);
  const Tensor x = cast(a, dtype), y = cast(b, dtype);
  const auto squares = [](const Tensor& of) { return sum(square(of), {-1}, true); };
  const Tensor squared = squares(x) + transpose(squares(y), -1, -2) - 2 * matmul(x, transpose(y, -1, -2));
  return cast(sqrt(clamp(squared, 1e-30)), a.dtype());
}

}  // namespace tandem

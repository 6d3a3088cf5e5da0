#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/linear.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/gradient_place.h>
#include <tandem/autograd/low_weights.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/into.h>

namespace tandem {

using namespace autograd;

namespace {

void check_ranks(const char* operation, const Tensor& a, int ndim_a, const Tensor& b, int ndim_b, const char* rule) {
  TANDEM_CHECK(a.shape().ndim() == ndim_a && b.shape().ndim() == ndim_b, operation, ": shapes ", a.shape(), " and ",
               b.shape(), " do not fit: expected ", rule);
}

// Computes a b in `dtype`. The result is in `place` if `place` is defined and row-major.
Array product(const Array& a, const Array& b, DType dtype, const Array& place) {
  if (!place.defined() || !place.is_contiguous()) return ops::matmul(a, b).to(dtype);
  const bool widens = !a.device().is_cpu() && dtype == DType::f32 && size_of(a.dtype()) == 2;
  if (dtype == a.dtype() || widens) ops::matmul_into(a, b, place);
  else Array(place).copy_from(ops::matmul(a, b));
  return place;
}

// Computes product() and the sum over the columns of a in one pass, and writes both to their places. If a place is
// missing or the device has no such kernel, it does nothing and returns false.
bool product_with_sums(const Array& a, const Array& b, const Array& place, const Array& sums) {
  return place.defined() && sums.defined() && place.is_contiguous() && place.dtype() == sums.dtype() &&
         !place.device().is_cpu() && ops::matmul_with_row_sums_into(a, b, place, sums);
}

// The sum over the rows of x (M, N) in `dtype`. The result is in `place` if `place` is defined.
Array sum_of_rows(const Array& x, DType dtype, const Array& place) {
  if (!place.defined() || x.numel() == 0) return ops::reduce(Reduction::sum, x.to(dtype), {0});
  ops::reduce_into(Reduction::sum, x, place.reshape({1, place.numel()}));
  return place;
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
  const Scope scope("matmul");
  const Tensor a = autocast_low(left), b = autocast_low(right);
  TANDEM_CHECK(a.dtype() == b.dtype(), "matmul: operands must have the same dtype, got ", a.dtype(), " and ", b.dtype(),
               "; cast one of them");
  return record(
      "matmul", {a, b}, ops::matmul(a.value(), b.value()),
      [x = Saved("matmul", a.value()), y = Saved("matmul", b.value())](const Array& grad, Needs needs) -> Gradients {
        Gradients gradients(2);
        if (needs[0]) gradients[0] = ops::matmul_grad_a(grad, y, x.get().shape());
        if (needs[1]) gradients[1] = ops::matmul_grad_b(x, grad, y.get().shape());
        return gradients;
      });
}

Tensor mm(const Tensor& a, const Tensor& b) {
  check_ranks("mm", a, 2, b, 2, "(M, K) and (K, N)");
  return matmul(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_ranks("bmm", a, 3, b, 3, "(B, M, K) and (B, K, N)");
  TANDEM_CHECK(a.dim(0) == b.dim(0), "bmm: batches of shapes ", a.shape(), " and ", b.shape(),
               " differ: expected (B, M, K) and (B, K, N); matmul broadcasts");
  return matmul(a, b);
}

Tensor mv(const Tensor& a, const Tensor& b) {
  check_ranks("mv", a, 2, b, 1, "(M, K) and (K)");
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  check_ranks("dot", a, 1, b, 1, "(K) and (K)");
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_ranks("outer", a, 1, b, 1, "(M) and (N)");
  return mul(reshape(a, {a.dim(0), 1}), b);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmm", a, 2, b, 2, "(M, K) and (K, N)");
  const Tensor product = matmul(a, b);
  TANDEM_CHECK(broadcast_shape(input.shape(), product.shape(), "addmm") == product.shape(), "addmm: input ",
               input.shape(), " does not broadcast to ", product.shape());
  const Tensor scaled = alpha == 1 ? product : affine(product, alpha, 0);
  if (beta == 0) return scaled;
  return add(beta == 1 ? input : affine(input, beta, 0), scaled);
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const Scope scope("linear");
  const Tensor x = autocast_low(input);
  TANDEM_CHECK(x.shape().ndim() > 0 && weight.shape().ndim() == 2 && x.dim(-1) == weight.dim(1), "linear: input ",
               x.shape(), " does not fit weight ", weight.shape(), ": expected (..., in) and (out, in)",
               x.shape().ndim() > 2 && weight.shape().ndim() == 2 && x.shape().product() == x.dim(0) * weight.dim(1)
                   ? "; flatten() turns it into (batch, in)"
                   : "");
  const DType bias_dtype = bias.defined() ? bias.dtype() : DType::f32;
  TANDEM_CHECK(is_floating(x.dtype()) && is_floating(weight.dtype()) && is_floating(bias_dtype),
               "linear: needs floating dtypes, got ", x.dtype(), ", weight ", weight.dtype(), " and bias ", bias_dtype);
  check_dtypes("linear", x, weight);
  const std::int64_t in = weight.dim(1), out = weight.dim(0);
  // One product multiplies all rows of x, over all its leading dimensions.
  std::int64_t rows = 1;
  Shape shape;
  for (int d = 0; d + 1 < x.shape().ndim(); ++d) {
    rows *= x.shape()[d];
    shape.push_back(x.shape()[d]);
  }
  shape.push_back(out);
  const Array table = x.value().reshape({rows, in});
  const Array low = low_weight(weight, weight.value(), x.dtype());  // used for the product and its gradient
  const Array y = ops::matmul(table, low.transpose(0, 1), low_bias(bias, table));
  return record("linear", {x, weight, bias}, y.reshape(shape),
                [table = Saved("linear", table), w = Saved("linear", weight.value()), low, rows, out,
                 shape_x = x.shape(), bias_dtype](const Array& grad_y, Needs needs) -> Gradients {
                  Gradients gradients(3);
                  const Array grad = grad_y.reshape({rows, out});
                  w.check_unchanged();
                  if (needs[0]) gradients[0] = ops::matmul(grad, low).reshape(shape_x);
                  const Array by_output = grad.transpose(0, 1);
                  const Array weight_place = gradient_place(1), bias_place = gradient_place(2);
                  if (needs[1] && needs[2] && product_with_sums(by_output, table, weight_place, bias_place)) {
                    gradients[1] = weight_place;
                    gradients[2] = bias_place;
                    return gradients;
                  }
                  if (needs[1]) gradients[1] = product(by_output, table, w.get().dtype(), weight_place);
                  if (needs[2]) gradients[2] = sum_of_rows(grad, bias_dtype, bias_place);
                  return gradients;
                });
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
  const Scope scope("bilinear");
  TANDEM_CHECK(weight.shape().ndim() == 3 && a.shape().ndim() > 0 && b.shape().ndim() > 0 &&
                   a.dim(-1) == weight.dim(1) && b.dim(-1) == weight.dim(2),
               "bilinear: inputs ", a.shape(), " and ", b.shape(), " do not fit weight ", weight.shape(),
               ": expected (..., I), (..., J) and (O, I, J)");
  const std::int64_t out = weight.dim(0), in_a = weight.dim(1), in_b = weight.dim(2);
  // The first product covers all outputs at once. Each row then needs only a small product with b.
  const Tensor side_by_side = reshape(transpose(weight, 1, 2), {out * in_b, in_a});
  const Tensor of_a = unflatten(linear(a, side_by_side), -1, {out, in_b});
  const Tensor y = squeeze(matmul(of_a, unsqueeze(b, -1)), -1);
  return bias.defined() ? y + cast(bias, y.dtype()) : y;
}

}  // namespace tandem

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/into.h>
#include <tandem/core/ops/linear.h>
#include <tandem/core/ops/reduce.h>

#include <algorithm>
#include <utility>

namespace tandem::ops {

namespace {

Shape without_matrix(const Shape& shape) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.ndim() - 2)));
}

Shape with_matrix(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

Array view(const Array& of, const Shape& shape, const Strides& strides, std::int64_t offset) {
  return Array(of.storage(), shape, strides, of.offset() + offset, of.dtype());
}

// Computes y = a b [+ bias] for a (..., M, K), b (..., K, N) and y (..., M, N), with as few calls as the strides allow.
// The leading dimensions are equal, and no array is empty.
void multiply(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  std::int64_t rows = a.dim(-2), a_row = a.strides()[-2];
  const std::int64_t inner = a.dim(-1), columns = b.dim(-1);
  const auto corners = [](const Array& matrices) { return matrices.select(-1, 0).select(-1, 0); };
  const Array a_corners = corners(a), b_corners = corners(b), y_corners = corners(y);
  LoopNest<3> batch({&a_corners, &b_corners, &y_corners});
  auto& size = batch.size[batch.ndim - 1];
  auto& stride = batch.stride[batch.ndim - 1];
  if (rows == 1) a_row = stride[0];
  // If all matrices of a share one matrix b, their rows form one larger product.
  if (stride[1] == 0 && stride[0] == a_row * rows) rows *= std::exchange(size, 1);
  // One call processes the largest batch dimension. A loop iterates over the others.
  const auto largest = std::max_element(batch.size.begin(), batch.size.begin() + batch.ndim) - batch.size.begin();
  std::swap(size, batch.size[largest]);
  std::swap(stride, batch.stride[largest]);
  const Strides a_strides{a_row, a.strides()[-1]}, b_strides{b.strides()[-2], b.strides()[-1]}, y_strides{columns, 1};
  Backend& device = backend(y.device());
  for (std::int64_t call = 0, calls = y.numel() / (size * rows * columns); call < calls; ++call) {
    const auto [at_a, at_b, at_y] = batch.offsets(call, 1);
    if (size == 1)
      device.matmul(view(a, {rows, inner}, a_strides, at_a), view(b, {inner, columns}, b_strides, at_b), bias,
                    view(y, {rows, columns}, y_strides, at_y));
    else
      device.matmul(view(a, {size, rows, inner}, {stride[0], a_strides[0], a_strides[1]}, at_a),
                    view(b, {size, inner, columns}, {stride[1], b_strides[0], b_strides[1]}, at_b), bias,
                    view(y, {size, rows, columns}, {stride[2], columns, 1}, at_y));
  }
}

void check_operands(const Array& a, const Array& b, const std::optional<Array>& bias) {
  TANDEM_CHECK(a.ndim() > 0 && b.ndim() > 0, "matmul: shapes ", a.shape(), " and ", b.shape(),
               ": a scalar can't be multiplied as a matrix; use mul");
  const std::int64_t inner = b.dim(b.ndim() == 1 ? 0 : -2);
  TANDEM_CHECK(a.dim(-1) == inner, "matmul: shapes ", a.shape(), " and ", b.shape(), " do not fit: ", a.dim(-1),
               " columns of the first, but ", inner, " rows of the second; needs (..., M, K) and (..., K, N)");
  for (const Array& operand : {a, b})
    TANDEM_CHECK(is_floating(operand.dtype()) ||
                     (operand.dtype() != DType::boolean && a.device().is_cpu() && a.dtype() == b.dtype()),
                 "matmul: needs floating dtypes (integers of one dtype on the CPU), got ", a.dtype(), " and ",
                 b.dtype());
  TANDEM_CHECK(!bias || bias->shape() == Shape{b.dim(-1)}, "bias has shape ", bias ? bias->shape() : Shape{},
               ", expected (", b.dim(-1), ")");
  TANDEM_CHECK(a.device() == b.device() && (!bias || bias->device() == a.device()),
               "matmul: operands must be on one device, got ", a.device(), " and ", b.device(),
               bias ? " and a bias" : "");
}

}  // namespace

Array matmul(const Array& first, const Array& second, const std::optional<Array>& bias) {
  check_operands(first, second, bias);
  const Array a = first.ndim() == 1 ? first.unsqueeze(0) : first;
  const Array b = (second.ndim() == 1 ? second.unsqueeze(1) : second).to(a.dtype());
  const std::int64_t rows = a.dim(-2), inner = a.dim(-1), columns = b.dim(-1);
  const bool single = a.ndim() == 2 && b.ndim() == 2;
  const Shape batch =
      single ? Shape{} : broadcast_shape(without_matrix(a.shape()), without_matrix(b.shape()), "matmul");
  Array y = Array::empty(with_matrix(batch, rows, columns), a.dtype(), a.device());
  if (y.numel() > 0 && inner == 0) {
    if (bias) y.copy_from(*bias);
    else y.fill(0);
  } else if (y.numel() > 0 && single) {
    backend(a.device()).matmul(a, b, bias, y);
  } else if (y.numel() > 0) {
    multiply(a.expand(with_matrix(batch, rows, inner)), b.expand(with_matrix(batch, inner, columns)), bias, y);
  }
  if (second.ndim() == 1) y = y.squeeze(-1);
  return first.ndim() == 1 ? y.squeeze(second.ndim() == 1 ? -1 : -2) : y;
}

namespace {

void check_into(const Array& a, const Array& b, const Array& y) {
  check_operands(a, b, std::nullopt);
  const bool widens = !y.device().is_cpu() && y.dtype() == DType::f32 && size_of(a.dtype()) == 2;
  TANDEM_CHECK(a.ndim() == 2 && b.ndim() == 2 && y.shape() == Shape({a.dim(0), b.dim(1)}) && y.is_contiguous() &&
                   (y.dtype() == a.dtype() || widens) && b.dtype() == a.dtype(),
               "matmul_into: ", a.dtype(), ' ', a.shape(), " x ", b.dtype(), ' ', b.shape(), " can't be written to ",
               y.dtype(), ' ', y.shape());
}

}  // namespace

void matmul_into(const Array& a, const Array& b, const Array& y) {
  check_into(a, b, y);
  if (y.numel() == 0) return;
  if (a.dim(1) == 0) return Array(y).fill(0);
  backend(y.device()).matmul(a, b, std::nullopt, y);
}

bool matmul_with_row_sums_into(const Array& a, const Array& b, const Array& y, const Array& row_sums) {
  check_into(a, b, y);
  TANDEM_CHECK(row_sums.shape() == Shape{a.dim(0)} && row_sums.dtype() == y.dtype() && row_sums.is_contiguous(),
               "matmul_into: the sums of ", a.shape(), " don't fit into ", row_sums.dtype(), ' ', row_sums.shape());
  return y.numel() > 0 && a.dim(1) > 0 && backend(y.device()).matmul_with_row_sums(a, b, y, row_sums);
}

namespace {

// Returns the gradient of matmul's result, with the dimensions of size 1 that matmul removed for vector operands.
Array matrix_grad(const Array& grad, bool a_is_vector, bool b_is_vector) {
  const Array columns = b_is_vector ? grad.unsqueeze(-1) : grad;
  return a_is_vector ? columns.unsqueeze(-2) : columns;
}

Shape matrix_shape(const Shape& shape, bool is_left) {
  if (shape.ndim() > 1) return shape;
  return is_left ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

std::int64_t batch_size(const Shape& shape) { return without_matrix(shape).product(); }

}  // namespace

Array matmul_grad_a(const Array& grad, const Array& b, const Shape& shape_a) {
  const Array g = matrix_grad(grad, shape_a.ndim() == 1, b.ndim() == 1);
  const Array right = b.ndim() == 1 ? b.unsqueeze(1) : b;
  const Shape wanted = matrix_shape(shape_a, true);
  return sum_to(matmul(g, right.transpose(-1, -2)), wanted).reshape(shape_a);
}

Array matmul_grad_b(const Array& a, const Array& grad, const Shape& shape_b) {
  Array g = matrix_grad(grad, a.ndim() == 1, shape_b.ndim() == 1);
  Array left = a.ndim() == 1 ? a.unsqueeze(0) : a;
  const Shape wanted = matrix_shape(shape_b, false);
  // If a batch of a shares one matrix b, the product itself sums over the batch.
  if (batch_size(wanted) == 1 && batch_size(left.shape()) == batch_size(g.shape())) {
    const std::int64_t rows = batch_size(g.shape()) * g.dim(-2);
    left = left.reshape({rows, left.dim(-1)});
    g = g.reshape({rows, g.dim(-1)});
    return matmul(left.transpose(0, 1), g).reshape(shape_b);
  }
  return sum_to(matmul(left.transpose(-1, -2), g), wanted).reshape(shape_b);
}

}  // namespace tandem::ops

// Operations on Arrays: checks, output allocation, and the call into the device's Backend. No gradients here; see
// autograd/ for the differentiable ones.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

Array full(const Shape& shape, double value, DType dtype = DType::f32, Device device = {});
Array zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array scalar(double value, DType dtype = DType::f32, Device device = {});  // shape ()
// The layout (channels last or row-major) and device of `like`.
Array empty_like(const Array& like);
Array empty_like(const Array& like, DType dtype);

// Element by element, broadcasting; operands of different dtype are promoted.
Array map(const UnaryOp& op, const Array& x);
Array map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y);
Array zip(const BinaryOp& op, const Array& a, const Array& b);
Array zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y);
Array compare(const CompareOp& op, const Array& a, const Array& b);
void add_(Array& target, const Array& addend);  // target += addend
void scale_(Array& target, double factor);      // target *= factor

// Over `dims` (all when empty). Sums of integers and bools are i64; argmax takes one dim and gives i64.
Array reduce(Reduction op, const Array& x, const Dims& dims = {}, bool keepdim = false);
// Sums x to `shape`: the gradient of broadcasting.
Array sum_to(const Array& x, const Shape& shape);

// a (M, K) b (K, N) [+ bias (N)] -> (M, N), in a's dtype.
Array matmul(const Array& a, const Array& b, const std::optional<Array>& bias = std::nullopt);

// x (N, C, H, W), weight (O, C, KH, KW), bias (O) -> (N, O, OH, OW), channels last, in x's dtype.
Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window);
Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Shape& x_shape);
struct Conv2dWeightGrad {
  Array weight, bias;  // in `dtype`; bias undefined unless asked for
};
Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype);

struct MaxPool {
  Array y, index;
};
MaxPool max_pool2d(const Array& x, const Window& window);
Array max_pool2d_grad(const Array& grad_y, const Array& index, const Window& window, const Shape& x_shape);

struct BatchNormStats {
  Array mean, m2;  // (C)
  Array count;     // (): values of a channel
};
// With an update: x is the whole batch. It may have running statistics in any floating dtype, and gets its invstd.
BatchNormStats batch_norm_stats(const Array& x, BatchNormUpdate* update = nullptr);
void batch_norm_update(const BatchNormStats& stats, BatchNormUpdate& update);
struct BatchNormOutput {
  Array y;
  Array selected, index;  // only with pooling
};
BatchNormOutput batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion);
struct BatchNormSums {
  Array dy, dy_xhat;  // (C)
};
BatchNormSums batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y);
// From the sums and the count of all ranks; no count: the statistics don't depend on x. in_place: the gradient may be written over x, which halves the memory that this pass touches.
Array batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                            const Array& grad_y, const Array& index, const BatchNormSums& sums,
                            const std::optional<Array>& count, bool in_place);

Array log_softmax(const Array& x);  // over the last dimension
Array log_softmax_grad(const Array& y, const Array& grad_y);
struct CrossEntropy {
  Array loss;           // ()
  Array probabilities;  // (N, C)
};
CrossEntropy cross_entropy(const Array& logits, const Array& target);
Array cross_entropy_grad(const CrossEntropy& forward, const Array& target, const Array& grad_loss,
                         DType dtype);

// The rows of `rows` (R, ...) that `index` (N) i64 names -> (N, ...), in the layout of `rows`, which is copied where its rows
// are not dense. An index that is no row is an Error, on a GPU at the next synchronisation.
Array gather_rows(const Array& rows, const Array& index);
// The same from u8 to f32: (byte / 255 - mean) / std.
Array gather_normalized(const Array& rows, const Array& index, float mean = 0, float std = 1);

}  // namespace tandem::ops

// Operations that write gradients of parameters into memory of the caller, which saves a copy. Each is the operation of
// the same name without "_into".
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/convolution.h>
#include <tandem/core/ops/norm.h>

#include <optional>

namespace tandem::ops {

// grad_weight (O, C / groups, KH, KW) is row-major; on a GPU it may be channels last. grad_bias (O) is optional. Both
// are dense and have the dtype of the parameters: the dtype of x, or f32. Neither x nor grad_y is empty.
void conv2d_grad_weight_into(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                             const std::optional<Array>& grad_bias);
// Also computes the gradient of x and returns it. On the CPU the two gradients share work. If `sum` is defined, it has
// the shape of x; the gradient is added to it, and the sum is returned. `sum` itself may be overwritten.
Array conv2d_grads_into(const Array& x, const Array& grad_y, const Array& weight, const Window& window,
                        const Array& grad_weight, const std::optional<Array>& grad_bias, Array sum = {});

// Returns memory for the gradients of a weight and its bias, in the layout that x's device writes.
Conv2dWeightGrad empty_weight_grad(const Array& x, const Window& window, std::int64_t out_channels, bool with_bias,
                                   DType dtype);

// dy and dy_xhat are dense (C) in the dtype of the statistics.
void batch_norm_grad_reduce_into(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                 const Array& grad_y, const BatchNormLastRelu* last, const Array& dy,
                                 const Array& dy_xhat);

// y (M, N) = a (M, K) b (K, N). All three have the same dtype, except that on a GPU y may be f32 if a and b are 16-bit.
// y is row-major.
void matmul_into(const Array& a, const Array& b, const Array& y);

// Also computes row_sums (M) = the sum of each row of a, in y's dtype. Returns false without doing anything if the
// device can't compute both at once.
bool matmul_with_row_sums_into(const Array& a, const Array& b, const Array& y, const Array& row_sums);

// y has x's number of dimensions, and size 1 in the reduced dimensions. x is not empty.
void reduce_into(const Reduction& op, const Array& x, const Array& y);

}  // namespace tandem::ops

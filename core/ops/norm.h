// Normalisation: of a batch, in phases between which ranks can add up their statistics, and of each sample.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/batch_norm.h>
#include <tandem/core/formulas/group_norm.h>

#include <optional>

namespace tandem {

// What normalisation multiplies by and adds, per channel (C), f32 (f64 for f64 input).
struct BatchNormAffine {
  Array mean, invstd;  // of this batch, or running statistics in evaluation
  Array weight, bias;
};

// What training makes of the statistics of a batch. Arrays of (C) in the dtype of the statistics.
struct BatchNormUpdate {
  Array running_mean,
      running_var;  // moved by `momentum` towards those of the batch, which is not empty; or undefined
  Array invstd;     // of the batch; an output
  double momentum;
  double eps;
  Array num_batches = {};  // () i64, counts this one; undefined where nobody counts
};

namespace ops {

// Mean, and sum of squared deviations from it.
struct BatchNormStats {
  Array mean, m2;  // (C)
  Array count;     // (): values of a channel
};
// With an update: x is the whole batch. It may have running statistics in any floating dtype, and gets its invstd.
BatchNormStats batch_norm_stats(const Array& x, BatchNormUpdate* update = nullptr);
void batch_norm_update(const BatchNormStats& stats, BatchNormUpdate& update);
// y = pool(relu((x - mean) * invstd * weight + bias + addend)), as `fusion` says; addend as x, or undefined. Not with
// pooling.
struct BatchNormOutput {
  Array y;
  Array selected, index;  // only with pooling
};
BatchNormOutput batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                 const Array& addend = {});
// What the gradient needs of a whole batch: the sums of dy and of dy * (x - mean) * invstd.
struct BatchNormSums {
  Array dy, dy_xhat;  // (C)
};
BatchNormSums batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y);
// From the sums and the count of all ranks; no count: the statistics don't depend on x. in_place: the gradient may be
// written over x, which halves the memory that this pass touches.
Array batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion, const Array& grad_y,
                            const Array& index, const BatchNormSums& sums, const std::optional<Array>& count,
                            bool in_place);

// Layer norm over the last dimensions of x, which have `shape`; RMS norm where it is not centred.
GroupNorm layer_norm_of(const Array& x, const Shape& shape, double eps, bool is_centred, const char* name);
// Over groups of the channels of x (N, C, ...); 4-D x may be channels last.
GroupNorm group_norm_of(const Array& x, std::int64_t groups, double eps, const char* name);
// weight and bias have as many elements as there are channels, or are undefined.
struct GroupNormOutput {
  Array y;
  Array mean, rstd;  // (samples, groups)
};
GroupNormOutput group_norm(const GroupNorm& how, const Array& x, const Array& weight, const Array& bias,
                           const char* name);
struct GroupNormGradients {
  Array x, weight, bias;  // those that are wanted; weight and bias (channels) in the dtype of the statistics
};
GroupNormGradients group_norm_grad(const GroupNorm& how, const Array& x, const Array& weight, const Array& mean,
                                   const Array& rstd, const Array& grad_y, bool wants_x, bool wants_weight,
                                   bool wants_bias);

}  // namespace ops

}  // namespace tandem

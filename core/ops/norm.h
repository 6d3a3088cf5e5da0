// Normalisation: of a batch, in phases between which ranks can add up their statistics, and of each sample by itself.
// core/formulas/batch_norm.h says which phase computes what.
#pragma once

#include <tandem/core/backend/arguments.h>
#include <tandem/core/formulas/batch_norm.h>
#include <tandem/core/formulas/group_norm.h>

#include <optional>

namespace tandem {

namespace ops {

// Throws an Error unless what belongs to a batch norm of x (N, C, H, W) fits x. What is undefined is left out. To be
// called before running statistics change.
void check_batch_norm(const Array& x, const BatchNormAffine& affine, const Array& running_mean = {},
                      const Array& running_var = {});

// The mean, and the sum of squared deviations from it.
struct BatchNormStats {
  Array mean, m2;     // (C)
  Array count;        // (): values of a channel
  Array packed = {};  // (2 * C + 1): the three above, which are views of it
};
// An update is given when x is the whole batch. Its running statistics may have any floating dtype, and its invstd is
// an output.
BatchNormStats batch_norm_stats(const Array& x, BatchNormUpdate* update = nullptr);
// The statistics of a batch whose parts have those in the rows of `parts` (ranks, 2 * C + 1), packed. A part may be
// empty. Applies the update as well.
BatchNormStats batch_norm_combine(const Array& parts, BatchNormUpdate& update);
// y = pool(relu((x - mean) * invstd * weight + bias + addend)), as `fusion` says. addend has x's shape or is undefined.
// There is no addend together with pooling.
struct BatchNormOutput {
  Array y;
  Array selected, index;  // only with pooling
};
BatchNormOutput batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                 const Array& addend = {});
// The sums over a whole batch that the gradient needs: of dy and of dy * (x - mean) * invstd.
struct BatchNormSums {
  Array dy, dy_xhat;  // (C)
  Array packed = {};  // (2, C): the two above, which are its rows
};
BatchNormSums unpack_batch_norm_sums(const Array& packed);
BatchNormSums batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y, const BatchNormLastRelu* last = nullptr);
// Computes grad_x from the sums and the count of all ranks. Without a count, the statistics do not depend on x.
// `in_place`: the gradient may be written over x, which halves the memory that this pass touches.
Array batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion, const Array& grad_y,
                            const Array& index, const BatchNormSums& sums, const std::optional<Array>& count,
                            bool in_place);

// Layer normalisation over the last dimensions of x, whose sizes are `shape`. Where it is not centred, it is RMS
// normalisation.
GroupNorm layer_norm_of(const Array& x, const Shape& shape, double eps, bool is_centred, const char* name);
// Normalisation over groups of the channels of x (N, C, ...). A four-dimensional x may be channels last.
GroupNorm group_norm_of(const Array& x, std::int64_t groups, double eps, const char* name);
// weight and bias have as many elements as there are channels, or are undefined.
struct GroupNormOutput {
  Array y;
  Array mean, rstd;  // (samples, groups)
};
GroupNormOutput group_norm(const GroupNorm& how, const Array& x, const Array& weight, const Array& bias,
                           const char* name);
struct GroupNormGradients {
  Array x, weight, bias;  // only those that are wanted; weight and bias are (channels), in the dtype of the statistics
};
GroupNormGradients group_norm_grad(const GroupNorm& how, const Array& x, const Array& weight, const Array& mean,
                                   const Array& rstd, const Array& grad_y, bool wants_x, bool wants_weight,
                                   bool wants_bias);

}  // namespace ops

}  // namespace tandem

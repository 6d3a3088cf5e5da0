// Batch normalisation, split into phases so that ranks can add up their statistics in between; and normalisations that
// treat each sample separately. core/formulas/batch_norm.h explains what each phase computes.
#pragma once

#include <tandem/core/backend/arguments.h>
#include <tandem/core/formulas/batch_norm.h>
#include <tandem/core/formulas/group_norm.h>

#include <optional>

namespace tandem {

namespace ops {

// Throws an Error unless the parameters and running statistics of a batch norm match x (N, C, H, W). Undefined arrays
// are not checked. Call this before the running statistics change.
void check_batch_norm(const Array& x, const BatchNormAffine& affine, const Array& running_mean = {},
                      const Array& running_var = {});

// The statistics of a batch. m2 is the sum of squared deviations from the mean.
struct BatchNormStats {
  Array mean, m2;     // (C)
  Array count;        // (): number of values per channel
  Array packed = {};  // (2 * C + 1): the three arrays above are views of it
};
// `update` is not null if x is the whole batch. Its running statistics may have any floating dtype; its invstd is an
// output.
BatchNormStats batch_norm_stats(const Array& x, BatchNormUpdate* update = nullptr);
// Returns the statistics of a batch from those of its parts, which are the rows of `parts` (ranks, 2 * C + 1), packed.
// A part may be empty. Also applies the update.
BatchNormStats batch_norm_combine(const Array& parts, BatchNormUpdate& update);
// y = pool(relu((x - mean) * invstd * weight + bias + addend)), as `fusion` specifies. addend has x's shape or is
// undefined. An addend can't be combined with pooling.
struct BatchNormOutput {
  Array y;
  Array selected, index;  // only with pooling
};
BatchNormOutput batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                 const Array& addend = {});
// The sums over a whole batch that the gradient needs: the sum of dy and that of dy * (x - mean) * invstd.
struct BatchNormSums {
  Array dy, dy_xhat;  // (C)
  Array packed = {};  // (2, C): its rows are the two arrays above
};
BatchNormSums unpack_batch_norm_sums(const Array& packed);
BatchNormSums batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                     const Array& grad_y, const BatchNormLastRelu* last = nullptr);
// Computes grad_x from the sums and the count of all ranks. Without a count, the statistics do not depend on x.
// `in_place`: the gradient may overwrite x, which halves the memory traffic of this pass.
Array batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion, const Array& grad_y,
                            const Array& index, const BatchNormSums& sums, const std::optional<Array>& count,
                            bool in_place);

// Describes layer normalisation over the last dimensions of x, whose sizes are `shape`. If it is not centred, it is RMS
// normalisation.
GroupNorm layer_norm_of(const Array& x, const Shape& shape, double eps, bool is_centred, const char* name);
// Describes normalisation over groups of channels of x (N, C, ...). A four-dimensional x may be channels last.
GroupNorm group_norm_of(const Array& x, std::int64_t groups, double eps, const char* name);
// weight and bias have one element per channel, or are undefined.
struct GroupNormOutput {
  Array y;
  Array mean, rstd;  // (samples, groups)
};
GroupNormOutput group_norm(const GroupNorm& how, const Array& x, const Array& weight, const Array& bias,
                           const char* name);
struct GroupNormGradients {
  Array x, weight, bias;  // undefined unless requested; weight and bias are (channels), in the dtype of the statistics
};
GroupNormGradients group_norm_grad(const GroupNorm& how, const Array& x, const Array& weight, const Array& mean,
                                   const Array& rstd, const Array& grad_y, bool wants_x, bool wants_weight,
                                   bool wants_bias);

}  // namespace ops

}  // namespace tandem

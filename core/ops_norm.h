// Normalisation.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::ops {

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

}  // namespace tandem::ops

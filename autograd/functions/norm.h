// Normalisation.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/batch_norm.h>

#include <memory>
#include <optional>

namespace tandem {

class BatchNormExchange;  // autograd/batch_norm_exchange.h

// Batch normalisation of x (N, C), (N, C, L) or (N, C, H, W) over all dimensions except C (Ioffe, Szegedy,
// arXiv:1502.03167). weight (C) and bias (C) may be undefined, which means 1 and 0. `fusion` may add ReLU, and max
// pooling for x (N, C, H, W). `addend` has the shape of x or is undefined. It is added before the ReLU, as the shortcut
// of a residual block, and must not change in place before backward().
struct BatchNormState {
  Array running_mean, running_var;  // (C), updated in place in training; undefined: the batch's statistics are always
                                    // used
  bool training = true;
  double momentum = 0.1;
  double eps = 1e-5;
  // In training, adds the statistics of the ranks that hold the rest of the batch. Null: x is the whole batch.
  std::shared_ptr<BatchNormExchange> exchange = nullptr;
  Array num_batches = {};  // () i64: the number of training batches so far; may be undefined
};
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion = {}, const Tensor& addend = {});

// Normalises over the last dimensions of x, which have `shape` (Ba, Kiros, Hinton, arXiv:1607.06450). weight and bias
// have `shape`, or are undefined.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Like layer_norm(), but without subtracting the mean (Zhang, Sennrich, arXiv:1910.07467). eps defaults to the distance
// from 1 to the next number in the dtype of x, or in f32 if x is 16-bit.
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = std::nullopt);
// Divides the channels of x (N, C, ...) into `groups` groups and normalises each group of each sample (Wu, He,
// arXiv:1803.08494). weight (C) and bias (C) may be undefined. If x (N, C, H, W) is channels last, so is the result.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Normalises each channel of each sample by its own statistics (Ulyanov et al., arXiv:1607.08022).
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tandem

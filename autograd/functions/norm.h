// Normalisation.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/batch_norm.h>

#include <memory>
#include <optional>

namespace tandem {

class BatchNormExchange;  // autograd/batch_norm_exchange.h

// Batch normalisation of x (N, C), (N, C, L) or (N, C, H, W) over all but C (Ioffe, Szegedy, arXiv:1502.03167), then
// what `fusion` asks for, of 4-D x. weight and bias (C), or undefined: 1 and 0. addend, as x or undefined, is added
// before ReLU: the shortcut of a residual block.
struct BatchNormState {
  Array running_mean, running_var;  // (C), updated in place in training; undefined: always the batch's own
  bool training = true;
  double momentum = 0.1;
  double eps = 1e-5;
  // In training, where the rest of the batch is on other ranks; null: x is the whole batch.
  std::shared_ptr<BatchNormExchange> exchange = nullptr;
  Array num_batches = {};  // () i64, counts the batches of training; undefined where nobody counts
};
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, BatchNormState& state,
                  BatchNormFusion fusion = {}, const Tensor& addend = {});

// Over the last dimensions of x, which have `shape` (Ba, Kiros, Hinton, arXiv:1607.06450). weight and bias have
// `shape`, or are undefined.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// The same without subtracting the mean (Zhang, Sennrich, arXiv:1910.07467). eps: the distance from 1 to the next
// number, of f32 for 16-bit x.
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = std::nullopt);
// Over each of `groups` groups of the channels of each sample of x (N, C, ...) (Wu, He, arXiv:1803.08494). weight and
// bias (C), or undefined. 4-D x may be channels last, which the result is then.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// A group for each channel (Ulyanov et al., arXiv:1607.08022); by x's own statistics.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tandem

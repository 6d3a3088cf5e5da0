#pragma once

#include <tandem/autograd/batch_norm_exchange.h>
#include <tandem/autograd/functions.h>
#include <tandem/nn/module.h>

#include <memory>
#include <optional>

namespace tandem::nn {

struct BatchNorm2dOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // the weight of the newest batch; nullopt: all batches have the same weight
  bool affine = true;                    // whether the layer has weight and bias
  bool track_running_stats = true;       // false: evaluation also uses the statistics of the batch
};

using BatchNorm1dOptions = BatchNorm2dOptions;

// Normalises each channel of x (N, C, H, W). In training the layer uses the statistics of the batch and updates the
// running statistics. In evaluation it uses the running statistics. weight (C), bias (C).
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t channels, const BatchNorm2dOptions& options = {})
      : BatchNorm2d("BatchNorm2d", channels, options) {}
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  // Normalises, and applies ReLU and 2 x 2 max pooling in the same pass. Sequential calls this function if those
  // modules follow the layer. `addend` (N, C, H, W) is added before the ReLU; it may be undefined.
  Tensor forward(const Tensor& x, BatchNormFusion fusion, const Tensor& addend = {});
  std::string describe() const override;
  // From now on, x is one rank's part of each training batch. With a null exchange, x is the whole batch.
  void set_exchange(std::shared_ptr<BatchNormExchange> exchange) { exchange_ = std::move(exchange); }

  Tensor weight, bias, running_mean, running_var,
      num_batches_tracked;  // undefined if the options disable them

 protected:
  BatchNorm2d(const char* name, std::int64_t channels, const BatchNorm2dOptions& options);

 private:
  std::int64_t channels_;
  BatchNorm2dOptions options_;
  std::shared_ptr<BatchNormExchange> exchange_;
};

// relu(norm(x)) and relu(norm(x) + addend). Each is one operation unless `norm` has forward hooks.
Tensor batch_norm_relu(BatchNorm2d& norm, const Tensor& x);
Tensor batch_norm_add_relu(BatchNorm2d& norm, const Tensor& x, const Tensor& addend);

// BatchNorm2d for x (N, C) or (N, C, L).
class BatchNorm1d : public BatchNorm2d {
 public:
  explicit BatchNorm1d(std::int64_t channels, const BatchNorm1dOptions& options = {})
      : BatchNorm2d("BatchNorm1d", channels, options) {}
};

}  // namespace tandem::nn

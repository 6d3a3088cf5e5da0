#include <tandem/core/ops.h>
#include <tandem/nn/batch_norm.h>

namespace tandem::nn {

BatchNorm2d::BatchNorm2d(const char* name, std::int64_t channels, const BatchNorm2dOptions& options)
    : channels_(channels), options_(options) {
  TANDEM_CHECK(channels > 0, name, ": channels must be positive, got ", channels);
  if (options.affine) {
    weight = add_parameter("weight", ops::ones({channels}));
    bias = add_parameter("bias", ops::zeros({channels}));
  }
  if (!options.track_running_stats) return;
  running_mean = add_buffer("running_mean", ops::zeros({channels}));
  running_var = add_buffer("running_var", ops::ones({channels}));
  num_batches_tracked = add_buffer("num_batches_tracked", ops::zeros({}, DType::i64));
}

Tensor BatchNorm2d::forward(const Tensor& x, BatchNormFusion fusion, const Tensor& addend) {
  BatchNormState state{{}, {}, is_training()};
  state.eps = options_.eps;
  if (options_.track_running_stats) {
    state.running_mean = running_mean.value();
    state.running_var = running_var.value();
  }
  if (is_training()) {
    if (options_.track_running_stats) {
      state.num_batches = num_batches_tracked.value();
      state.momentum = options_.momentum ? *options_.momentum : 1 / (state.num_batches.item() + 1);
    }
    state.exchange = exchange_;
    if (is_recomputing() && options_.track_running_stats) {  // the first run has already counted this batch
      state.running_mean = state.running_mean.clone();
      state.running_var = state.running_var.clone();
      state.num_batches = state.num_batches.clone();
    }
  }
  return batch_norm(x, weight, bias, state, fusion, addend);
}

Tensor batch_norm_relu(BatchNorm2d& norm, const Tensor& x) {
  return norm.has_forward_hooks() ? relu(norm(x)) : norm.forward(x, {.relu = true});
}

Tensor batch_norm_add_relu(BatchNorm2d& norm, const Tensor& x, const Tensor& addend) {
  return norm.has_forward_hooks() ? relu(norm(x) + addend) : norm.forward(x, {.relu = true}, addend);
}

std::string BatchNorm2d::describe() const { return describe_as(channels_); }

}  // namespace tandem::nn

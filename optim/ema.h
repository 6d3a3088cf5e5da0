// ExponentialMovingAverage keeps slow moving averages of a model's parameters. The averages often make a better model.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <vector>

namespace tandem::optim {

struct ExponentialMovingAverageOptions {
  double decay = 0.999;
  bool use_buffers = false;  // whether buffers are averaged too; otherwise each update copies them
};

// Averages weights like PyTorch's AveragedModel with get_ema_multi_avg_fn (Polyak and Juditsky, 1992):
//
//   ExponentialMovingAverage average(model.parameters(), model.buffers(), {.decay = 0.999});
//   ...; optimizer.step(); average.update();
//   average.swap(); evaluate(model); average.swap();
//
// The first update copies the parameters. Each later update computes average = decay * average + (1 - decay) *
// parameter. The averages have their own memory, on the device of the parameters. The object holds handles to the
// model's parameters. Only one thread may use it, and no other thread may use the model in the meantime.
class ExponentialMovingAverage {
 public:
  // Not copyable, because a copy would count its steps separately.
  ExponentialMovingAverage(ExponentialMovingAverage&&) = default;
  ExponentialMovingAverage& operator=(ExponentialMovingAverage&&) = default;

  explicit ExponentialMovingAverage(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers = {},
                                    const ExponentialMovingAverageOptions& options = {});

  void update();
  std::int64_t updates() const { return updates_; }

  // Exchanges the values of the model's parameters and buffers with the averages. A second call exchanges them back.
  // Between the two calls, update() throws an Error.
  void swap();
  // The averages under the names of the model's state dict. load_state_dict() of another model of the same kind accepts
  // them.
  std::vector<NamedArray> averages() const;

  // The names are those of PyTorch's AveragedModel: "n_averaged" (i64) and "module.NAME".
  std::vector<NamedArray> state_dict() const;
  // Throws an Error and changes nothing if an entry is missing or unknown, or has a different shape.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  struct Entry {
    NamedTensor followed;
    Array average;
    bool is_averaged;  // otherwise copied
  };
  ExponentialMovingAverageOptions options_;
  std::vector<Entry> entries_;
  std::int64_t updates_ = 0;
  bool is_swapped_ = false;
};

}  // namespace tandem::optim

// ExponentialMovingAverage: averages of a model's parameters that follow the parameters slowly. They often make the
// better model.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <vector>

namespace tandem::optim {

struct ExponentialMovingAverageOptions {
  double decay = 0.999;
  bool use_buffers = false;  // whether the buffers are averaged too; else each update copies them
};

// Averages weights as PyTorch's AveragedModel with get_ema_multi_avg_fn does (Polyak and Juditsky, 1992):
//
//   ExponentialMovingAverage average(model.parameters(), model.buffers(), {.decay = 0.999});
//   ...; optimizer.step(); average.update();
//   average.swap(); evaluate(model); average.swap();
//
// The first update copies the parameters. Each further update is average = decay * average + (1 - decay) * parameter.
// The averages lie in memory of their own, on the device of the parameters. The object holds handles of the model's
// parameters.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers = {},
                                    const ExponentialMovingAverageOptions& options = {});

  void update();
  std::int64_t updates() const { return updates_; }

  // Exchanges the values of the model's parameters and buffers with the averages. A second call brings both back.
  // Between the two calls update() is an Error.
  void swap();
  // The averages under the names of the model's state dict. Another model of the same kind takes them by
  // load_state_dict().
  std::vector<NamedArray> averages() const;

  // The names are those of PyTorch's AveragedModel: "n_averaged" (i64) and "module.NAME".
  std::vector<NamedArray> state_dict() const;
  // Error when an entry is missing or unknown, or has another shape. Then nothing is changed.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  struct Entry {
    NamedTensor followed;
    Array average;
    bool is_averaged;  // else copied
  };
  ExponentialMovingAverageOptions options_;
  std::vector<Entry> entries_;
  std::int64_t updates_ = 0;
  bool is_swapped_ = false;
};

}  // namespace tandem::optim

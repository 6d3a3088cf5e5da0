// ExponentialMovingAverage: a second set of a model's parameters that follows the first slowly, and is often the better
// model.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <vector>

namespace tandem::optim {

struct EmaOptions {
  double decay = 0.999;
  bool use_buffers = false;  // average the buffers too; else they are copied at each update
};

// What PyTorch's AveragedModel with get_ema_multi_avg_fn does (Polyak and Juditsky, 1992):
//
//   ExponentialMovingAverage average(model.parameters(), model.buffers(), {.decay = 0.999});
//   ...; optimizer.step(); average.update();
//   average.swap(); evaluate(model); average.swap();
//
// The first update copies the parameters; each further one is average = decay * average + (1 - decay) * parameter.
// Averages lie where the parameters do, in memory of their own. It shares the model's parameters, not its memory for
// them.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers = {},
                                    const EmaOptions& options = {});

  void update();
  std::int64_t updates() const { return updates_; }

  // Exchanges the model's values and the averages, parameters and buffers; once more brings both back. In between
  // update() is an error.
  void swap();
  // The averages, with the names of the model's state dict, for another model of the same kind: load_state_dict().
  std::vector<NamedArray> averages() const;

  // As PyTorch's AveragedModel: "n_averaged" (i64) and "module.NAME".
  std::vector<NamedArray> state_dict() const;
  // Error when something is missing or unknown, or of another shape; nothing is changed then.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  struct Entry {
    NamedTensor followed;
    Array average;
    bool is_averaged;  // else copied
  };
  EmaOptions options_;
  std::vector<Entry> entries_;
  std::int64_t updates_ = 0;
  bool is_swapped_ = false;
};

}  // namespace tandem::optim

// GradScaler: keeps the small gradients of f16 training from becoming zero, by making the loss larger before backward
// and the gradients smaller after it.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>
#include <tandem/optim/optimizer.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without overflow after which the scale grows
  bool enabled = true;                  // false: nothing is scaled, so that a program needs no branch
};

// Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section 3.2, as torch.amp.GradScaler does it:
//
//   GradScaler scaler({.enabled = dtype == DType::f16});
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // not where a gradient is infinite or NaN
//   scaler.update();         // the scale of the next step
//
// Between backward and step(), unscale_() gives the gradients their true size, for clipping. Under
// DistributedDataParallel all ranks hold the same gradients, and so decide alike without a message.
//
// On a GPU the gradients are looked at there, and step() waits once for what was found: whether the optimizer runs is
// decided on the host. A captured step (a CUDA graph) can't wait, so it can't contain a GradScaler that is enabled.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // The loss times the scale. f32, as the losses of this library are under Autocast: f16 has no number as large as the
  // first scale.
  Tensor scale(const Tensor& loss) const;
  // Divides the gradients of the optimizer's parameters by the scale, in place. Error when that was done since
  // update().
  void unscale_(Optimizer& optimizer);
  // optimizer.step(), unless a gradient is not finite; unscale_() first unless that was done. Whether it stepped.
  bool step(Optimizer& optimizer);
  // After the steps of all optimizers: a smaller scale if one of them found an overflow, a larger one after
  // growth_interval updates without any.
  void update();

  double scale() const { return options_.enabled ? scale_ : 1; }
  bool is_enabled() const { return options_.enabled; }

  // PyTorch's names, one number (f64) each; empty where disabled.
  std::vector<NamedArray> state_dict() const;
  // Error when something is missing or unknown; nothing is changed then. An empty state leaves it as it is.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  struct Seen {
    bool overflow = false;
    bool stepped = false;
  };
  // Of an optimizer since the last update().
  Seen* seen(const Optimizer& optimizer);

  GradScalerOptions options_;
  float scale_;  // f32, as PyTorch's
  std::int64_t growth_tracker_ = 0;
  std::vector<std::pair<const Optimizer*, Seen>> seen_;
};

}  // namespace tandem::optim

// GradScaler: keeps small gradients from becoming zero in f16 training. The loss is made larger before backward(), and
// the gradients are made smaller after it.
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
  bool enabled = true;                  // when false, nothing is scaled: so a program needs no branch
};

// Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section 3.2, as torch.amp.GradScaler does it:
//
//   GradScaler scaler({.enabled = dtype == DType::f16});
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // skips the step when a gradient is infinite or NaN
//   scaler.update();         // the scale of the next step
//
// Between backward and step(), unscale_() gives the gradients their true size, for clipping. Under
// DistributedDataParallel all ranks hold the same gradients, and so decide alike without a message.
//
// Gradients on a GPU are checked on the GPU. step() waits once for the result, because the host decides whether the
// optimizer runs. A captured step (a CUDA graph) can't wait, so it can't contain a GradScaler that is enabled.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // The loss times the scale. The loss must be f32, as losses are under Autocast: f16 has no number as large as the
  // first scale.
  Tensor scale(const Tensor& loss) const;
  // Divides the gradients of the optimizer's parameters by the scale, in place. Error when they have been divided since
  // the last update().
  void unscale_(Optimizer& optimizer);
  // Calls unscale_() unless that was done, and then optimizer.step() unless a gradient is not finite. Returns whether
  // the optimizer stepped.
  bool step(Optimizer& optimizer);
  // To be called after the steps of all optimizers. The scale becomes smaller when an optimizer found an overflow, and
  // larger after growth_interval updates without an overflow.
  void update();

  double scale() const { return options_.enabled ? scale_ : 1; }
  bool is_enabled() const { return options_.enabled; }

  // One number (f64) under each of PyTorch's names. Empty when the scaler is disabled.
  std::vector<NamedArray> state_dict() const;
  // Error when an entry is missing or unknown. Then nothing is changed. An empty state changes nothing.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  struct Seen {
    bool overflow = false;
    bool stepped = false;
  };
  // The entry of `optimizer` since the last update().
  Seen* seen(const Optimizer& optimizer);

  GradScalerOptions options_;
  float scale_;  // f32, as PyTorch's
  std::int64_t growth_tracker_ = 0;
  std::vector<std::pair<const Optimizer*, Seen>> seen_;
};

}  // namespace tandem::optim

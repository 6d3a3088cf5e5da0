// GradScaler keeps small gradients from becoming zero in f16 training. It scales the loss up before backward() and the
// gradients down afterwards.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>
#include <tandem/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace tandem::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without overflow after which the scale grows
  bool enabled = true;                  // false turns scaling off, so a program needs no branch
};

// Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section 3.2, as in torch.amp.GradScaler:
//
//   GradScaler scaler({.enabled = dtype == DType::f16});
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // skips the step if a gradient is infinite or NaN
//   scaler.update();         // sets the scale for the next step
//
// Between backward() and step(), unscale_() restores the true size of the gradients, for clipping. Under
// DistributedDataParallel all ranks hold the same gradients, so they decide identically without a message.
//
// The GPU checks its gradients. step() waits once for the result, because the host decides whether the optimizer runs.
// A captured step (a CUDA graph) can't wait, so it can't contain an enabled GradScaler. Only one thread may use it.
class GradScaler {
 public:
  // Not copyable, because a copy would count its steps separately.
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;

  explicit GradScaler(const GradScalerOptions& options = {});

  // Returns the loss times the scale. The loss must be f32, as losses are under Autocast: the initial scale is too
  // large for f16.
  Tensor scale(const Tensor& loss) const;
  // Divides the gradients of the optimizer's parameters by the scale, in place. Throws an Error if this has been done
  // since the last update().
  void unscale_(Optimizer& optimizer);
  // Calls unscale_() unless it has already been called, and then optimizer.step() unless a gradient is not finite.
  // Returns whether the optimizer stepped.
  bool step(Optimizer& optimizer);
  // For gradients that are divided among several processes. unscale_() calls `agree` and passes whether this process's
  // gradients are finite. It uses the result, which should be whether those of all processes are.
  void set_agreement(std::function<bool(bool is_finite)> agree) { agree_ = std::move(agree); }
  // Call this after the steps of all optimizers. The scale shrinks if an optimizer found an overflow, and grows after
  // growth_interval updates without an overflow.
  void update();

  double scale() const { return options_.enabled ? scale_ : 1; }
  bool is_enabled() const { return options_.enabled; }

  // One number (f64) for each of PyTorch's names. Empty if the scaler is disabled.
  std::vector<NamedArray> state_dict() const;
  // Throws an Error and changes nothing if an entry is missing or unknown. An empty state changes nothing.
  void load_state_dict(const std::vector<NamedArray>& state);

 private:
  struct Seen {
    bool overflow = false;
    bool stepped = false;
  };
  // The entry of `optimizer` since the last update(), or null.
  Seen* seen(const Optimizer& optimizer);

  GradScalerOptions options_;
  float scale_;  // f32, as in PyTorch
  std::int64_t growth_tracker_ = 0;
  std::vector<std::pair<const Optimizer*, Seen>> seen_;
  std::function<bool(bool is_finite)> agree_;  // empty: this process has all gradients
};

}  // namespace tandem::optim

#include <tandem/autograd/functions.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/grad_scaler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tandem::optim {

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(static_cast<float>(options.init_scale)) {
  TANDEM_CHECK(std::isfinite(scale_) && scale_ > 0, "GradScaler: init_scale must be a number above 0, got ",
               options.init_scale);
  TANDEM_CHECK(options.growth_factor > 1, "GradScaler: growth_factor must be above 1, got ", options.growth_factor);
  TANDEM_CHECK(options.backoff_factor > 0 && options.backoff_factor < 1,
               "GradScaler: backoff_factor must be between 0 and 1, got ", options.backoff_factor);
  TANDEM_CHECK(options.growth_interval >= 1, "GradScaler: growth_interval must be at least 1, got ",
               options.growth_interval);
}

GradScaler::Seen* GradScaler::seen(const Optimizer& optimizer) {
  for (auto& [known, what] : seen_)
    if (known == &optimizer) return &what;
  return nullptr;
}

Tensor GradScaler::scale(const Tensor& loss) const {
  if (!options_.enabled) return loss;
  TANDEM_CHECK(loss.dtype() == DType::f32 || loss.dtype() == DType::f64, "GradScaler::scale: the loss is ",
               loss.dtype(), ", in which the scaled loss would overflow; cast() it to f32");
  return loss * scale_;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  TANDEM_CHECK(!seen(optimizer),
               "GradScaler::unscale_: the gradients of this optimizer have already been divided by the scale; call "
               "update() after each step");
  const Scope scope("GradScaler::unscale_");
  const auto parameters = optimizer.parameters();
  // The infinity norm is finite if and only if all gradients are finite. Reading it waits for the device.
  bool finite = std::isfinite(grad_norm(parameters, std::numeric_limits<double>::infinity()).item());
  if (agree_) finite = agree_(finite);
  const double inverse = 1.0 / static_cast<double>(scale_);
  for (const Tensor& parameter : parameters)
    if (Array gradient = parameter.grad(); gradient.defined()) ops::scale_(gradient, static_cast<float>(inverse));
  seen_.push_back({&optimizer, {.overflow = !finite}});
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (!seen(optimizer)) unscale_(optimizer);
  Seen& found = *seen(optimizer);
  TANDEM_CHECK(!found.stepped, "GradScaler::step: this optimizer has already stepped; call update() after each step");
  found.stepped = true;
  if (!found.overflow) optimizer.step();
  return !found.overflow;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  TANDEM_CHECK(!seen_.empty(), "GradScaler::update: no optimizer has made a step since the last update()");
  const bool overflow = std::any_of(seen_.begin(), seen_.end(), [](const auto& s) { return s.second.overflow; });
  seen_.clear();
  if (overflow) {
    scale_ = static_cast<float>(scale_ * options_.backoff_factor);
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval) {
    const auto grown = static_cast<float>(scale_ * options_.growth_factor);
    if (std::isfinite(grown)) scale_ = grown;
    growth_tracker_ = 0;
  }
}

namespace {
constexpr std::array names{"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"};
}

std::vector<NamedArray> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  const std::array values{static_cast<double>(scale_), options_.growth_factor, options_.backoff_factor,
                          static_cast<double>(options_.growth_interval), static_cast<double>(growth_tracker_)};
  std::vector<NamedArray> state;
  for (std::size_t i = 0; i < names.size(); ++i) state.push_back({names[i], ops::scalar(values[i], DType::f64)});
  return state;
}

void GradScaler::load_state_dict(const std::vector<NamedArray>& state) {
  if (!options_.enabled || state.empty()) return;
  std::array<double, names.size()> values{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found =
        std::find_if(state.begin(), state.end(), [&](const NamedArray& entry) { return entry.name == names[i]; });
    TANDEM_CHECK(found != state.end(), "GradScaler: the saved state has no ", names[i]);
    values[i] = found->array.item();
  }
  TANDEM_CHECK(state.size() == names.size(), "GradScaler: the saved state has ", state.size(), " entries, expected ",
               names.size());
  for (const std::size_t i : {3, 4})
    TANDEM_CHECK(values[i] >= 0 && values[i] <= 1e15, "GradScaler: the saved ", names[i], " is ", values[i],
                 ", which is not a number of steps");
  GradScaler loaded({values[0], values[1], values[2], static_cast<std::int64_t>(values[3])});
  loaded.growth_tracker_ = static_cast<std::int64_t>(values[4]);
  loaded.agree_ = std::move(agree_);
  *this = std::move(loaded);
}

}  // namespace tandem::optim

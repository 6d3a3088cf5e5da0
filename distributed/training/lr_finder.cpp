#include <tandem/core/base/check.h>
#include <tandem/distributed/training/lr_finder.h>
#include <tandem/distributed/training/metrics/line_chart.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::distributed {
namespace {

// Returns the central difference, like numpy.gradient.
double slope_at(const std::vector<double>& values, std::size_t i) { return (values[i + 1] - values[i - 1]) / 2; }

std::optional<double> steepest(const LrCurve& curve, std::size_t planned) {
  const auto& smooth = curve.smooth;
  const auto least = static_cast<std::size_t>(std::min_element(smooth.begin(), smooth.end()) - smooth.begin());
  std::optional<double> found;
  double best = 0;
  for (std::size_t i = std::max<std::size_t>(1, planned / 10); i < least && i + 1 < smooth.size(); ++i) {
    if (slope_at(smooth, i) >= best) continue;
    best = slope_at(smooth, i);
    found = curve.lrs[i];
  }
  return found;
}

}  // namespace

LrCurve sweep_learning_rates(const LrSweep& sweep, const std::function<double(double lr)>& step) {
  TANDEM_CHECK(sweep.first > 0 && sweep.last > sweep.first && std::isfinite(sweep.last),
               "find_lr: the learning rates must grow from a number above 0, got ", sweep.first, " to ", sweep.last);
  TANDEM_CHECK(sweep.steps >= least_sweep_steps, "find_lr: expected at least ", least_sweep_steps, " steps, got ",
               sweep.steps);
  TANDEM_CHECK(sweep.smoothing >= 0 && sweep.smoothing < 1, "find_lr: smoothing must be in [0, 1), got ",
               sweep.smoothing);
  LrCurve curve;
  double average = 0, weight = 0, least = 0;
  for (std::int64_t i = 0; i < sweep.steps; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(sweep.steps - 1);
    const double lr = sweep.first * std::pow(sweep.last / sweep.first, part);
    const double loss = step(lr);
    if (!std::isfinite(loss)) break;
    // As for Adam's moments, the average is divided by the sum of its weights.
    average = sweep.smoothing * average + (1 - sweep.smoothing) * loss;
    weight = sweep.smoothing * weight + (1 - sweep.smoothing);
    curve.lrs.push_back(lr);
    curve.losses.push_back(loss);
    curve.smooth.push_back(average / weight);
    least = i == 0 ? curve.smooth[0] : std::min(least, curve.smooth.back());
    curve.is_complete = i + 1 == sweep.steps;
    if (curve.smooth.back() > sweep.limit * least) break;
  }
  curve.suggestion = steepest(curve, static_cast<std::size_t>(sweep.steps));
  return curve;
}

void draw(const LrCurve& curve, const std::string& title, const std::filesystem::path& file) {
  LineChart chart;
  chart.title = title;
  chart.x_label = "learning rate";
  chart.y_label = "loss";
  chart.x = curve.lrs;
  chart.lines = {{"loss of each step", curve.losses}, {"smooth", curve.smooth}};
  if (curve.suggestion) chart.mark = LineChart::Mark{*curve.suggestion, fmt::format("{:.3g}", *curve.suggestion)};
  write_svg(chart, file);
}

}  // namespace tandem::distributed

#include <tandem/core/ops.h>
#include <tandem/distributed/training/metrics/losses.h>

#include <limits>
#include <vector>

namespace tandem::distributed {
namespace {

constexpr double no_loss = std::numeric_limits<double>::quiet_NaN();

// Returns `sum` and two counts in one array on the same device, so all three need only one reduction over the ranks.
Array with_counts(const Array& sum, double first, double second) {
  const auto all = Array::from(std::vector{0.0f, static_cast<float>(first), static_cast<float>(second)}, {3});
  const Array on_device = all.to(sum.device());
  on_device.select(0, 0).copy_from(sum);
  return on_device;
}

}  // namespace

void Losses::begin_epoch(double before, Device device) {
  of_epoch_ = ops::scalar(before, DType::f32, device);
  with_loss_ = before != 0;
  without_ = 0;
}

void Losses::add(const Array& loss, const Progress& progress, bool has_loss) {
  Array part = has_loss ? loss.clone() : ops::scalar(0, DType::f32, loss.device());
  if (of_epoch_.device() != loss.device()) of_epoch_ = of_epoch_.to(loss.device());
  ops::add_(of_epoch_, part);
  ++(has_loss ? with_loss_ : without_);
  if (!of_steps_) return;
  if (progress.parts() > 1) ops::scale_(part, progress.weight());
  if (progress.begins_step()) {
    of_step_ = part;
    with_loss_in_step_ = 0;
    missing_in_step_ = 0;
  } else {
    ops::add_(of_step_, part);
  }
  with_loss_in_step_ += has_loss;
  if (!has_loss) missing_in_step_ += progress.weight();
}

double Losses::total(ProcessGroup& group) const {
  const Array all = with_counts(of_epoch_, with_loss_, without_);
  group.reduce(all, 0, ReduceOp::sum, "total loss")->wait();
  const double with_loss = all.select(0, 1).item(), without = all.select(0, 2).item();
  return with_loss == 0 && without > 0 ? no_loss : all.select(0, 0).item();
}

double Losses::step_mean(ProcessGroup& group) const {
  const Array all = with_counts(of_step_, with_loss_in_step_, missing_in_step_);
  group.all_reduce(all, ReduceOp::mean, "step loss")->wait();
  const double with_loss = all.select(0, 1).item(), missing = all.select(0, 2).item();
  return with_loss == 0 ? no_loss : all.select(0, 0).item() / (1 - missing);
}

}  // namespace tandem::distributed

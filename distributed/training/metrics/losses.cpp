#include <tandem/core/ops.h>
#include <tandem/distributed/training/metrics/losses.h>

namespace tandem::distributed {

void Losses::begin_epoch(double before, Device device) { of_epoch_ = ops::scalar(before, DType::f32, device); }

void Losses::add(const Array& loss, const Progress& progress) {
  if (of_epoch_.device() != loss.device()) of_epoch_ = of_epoch_.to(loss.device());
  ops::add_(of_epoch_, loss);
  if (!of_steps_) return;
  Array part = loss.clone();
  if (progress.parts() > 1) ops::scale_(part, progress.weight());
  if (progress.begins_step()) of_step_ = part;
  else ops::add_(of_step_, part);
}

double Losses::total(ProcessGroup& group) const {
  Array total = of_epoch_.clone();
  group.reduce(total, 0, ReduceOp::sum, "total loss")->wait();
  return total.item();
}

double Losses::step_mean(ProcessGroup& group) const {
  Array mean = of_step_.clone();
  group.all_reduce(mean, ReduceOp::mean, "step loss")->wait();
  return mean.item();
}

}  // namespace tandem::distributed

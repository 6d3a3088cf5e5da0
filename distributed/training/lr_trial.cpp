#include <tandem/autograd/autocast.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/training/lr_trial.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

namespace tandem::distributed {

LrTrial::LrTrial(const TrainingOptions& options, ProcessGroup& group, DistributedDataParallel& ddp, Update& update,
                 FiniteCheck& check, JobState& state, data::Loader& loader,
                 std::function<Tensor(const data::Batch&)> loss_of)
    : options_(options),
      group_(group),
      ddp_(ddp),
      update_(update),
      check_(check),
      state_(state),
      loader_(loader),
      loss_of_(std::move(loss_of)),
      lrs_(update.lrs()),
      progress_(loader, Division{group.size(), loader.batch_size(), options.accumulate}, 1) {
  TANDEM_CHECK(!lrs_.empty(), "find_lr: no optimizer is in use: call use(optimizer) first");
  TANDEM_CHECK(lrs_[0] > 0, "find_lr: the first parameter group has the learning rate ", lrs_[0],
               ": set it above 0; the rates of other groups keep their proportion to it");
  TANDEM_CHECK(loader.size() > 0, "find_lr: the loader has no batch");
}

LrCurve LrTrial::run(const LrSweep& sweep) {
  const auto bring_back = state_.remember();
  const LrCurve curve = sweep_learning_rates(sweep, [this](double lr) { return step(lr); });
  batch_.reset();
  bring_back();
  update_.set_lrs(lrs_);
  return curve;
}

void LrTrial::show(TrainingLog& log) {
  const std::string& file = options_.find_lr;
  // Check before the sweep whether the file can be written.
  run_together(group_, [&] {
    if (group_.rank() == 0) const AtomicFile probe(file);
  });
  LrSweep sweep;
  sweep.steps = std::min(sweep.steps, options_.max_steps);
  const LrCurve curve = run(sweep);
  TANDEM_CHECK(!curve.lrs.empty(), "--find-lr: the loss is not finite before the first step");
  run_together(group_, [&] {
    if (group_.rank() == 0) draw(curve, options_.program() + ": loss by learning rate", file);
  });
  log.note(fmt::format("tried {} from {:.3g} to {:.3g}{}; the plot is in {}",
                       counted(std::ssize(curve.lrs), "learning rate"), curve.lrs.front(), curve.lrs.back(),
                       curve.is_complete ? "" : ", where the loss diverged", file));
  log.line(curve.suggestion ? fmt::format("Suggested learning rate: {:.3g}", *curve.suggestion)
                            : "Suggested learning rate: none, because the loss never fell");
}

double LrTrial::step(double lr) {
  std::vector<double> lrs;
  for (const double base : lrs_) lrs.push_back(base * lr / lrs_[0]);
  update_.set_lrs(lrs);
  constexpr double not_finite = std::numeric_limits<double>::quiet_NaN();
  double loss = 0, missing = 0;
  bool is_known = false;
  for (bool is_complete = false; !is_complete;) {
    data::Batch& batch = next_batch();
    ddp_.forward([] {});
    const Autocast autocast(options_.dtype);
    const Tensor of_batch = loss_of_(batch);
    const double ranks_with_loss = group_.sum(check_.has_loss(), "ranks with a loss");
    const Array mean = check_.has_loss() ? of_batch.value().reshape({}).to(DType::f32).clone()
                                         : ops::scalar(0, DType::f32, of_batch.device());
    group_.all_reduce(mean, ReduceOp::mean, "loss of a trial")->wait();
    is_known |= ranks_with_loss > 0;
    if (ranks_with_loss > 0) loss += mean.item() * progress_.weight() * (group_.size() / ranks_with_loss);
    else missing += progress_.weight();
    if (!std::isfinite(loss)) return not_finite;
    bool is_finite = true;
    try {
      update_(of_batch, progress_);
    } catch (const NotFinite&) {
      is_finite = false;
    }
    // Ranks that average no gradients (--strategy diloco) may differ in this.
    if (group_.sum(!is_finite, "ranks whose gradients are not finite") > 0) return not_finite;
    is_complete = progress_.completes_step();
    progress_.count();
  }
  if (is_known) last_loss_ = loss / (1 - missing);
  return last_loss_;
}

data::Batch& LrTrial::next_batch() {
  if (batch_) ++*batch_;
  if (!batch_ || *batch_ == std::default_sentinel) {
    progress_.end_epoch();
    batch_.emplace(loader_.epoch(epoch_++).begin());
  }
  data::Batch& batch = **batch_;
  check_.begin_batch(batch);
  batch = batch.to(options_.device());
  return batch;
}

}  // namespace tandem::distributed

#include <tandem/autograd/functions.h>
#include <tandem/distributed/training/update.h>
#include <tandem/optim/clip.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace tandem::distributed {
namespace {

// Below this loss scale, f16 training has failed. The initial scale gets there after 30 consecutive steps without
// finite gradients. The value is that of fairseq's --min-loss-scale.
constexpr double least_scale = 1e-4;

}  // namespace

void Update::through(ZeroRedundancy& zero) {
  zero_ = &zero;
  // A step that is skipped because of one rank's shards is skipped by all ranks.
  scaler_.set_agreement(
      [this](bool is_finite) { return ddp_.group()->max(is_finite ? 0 : 1, "gradients that are not finite") == 0; });
}

void Update::use(optim::Optimizer& optimizer, MakeSchedule schedule, Counts counts) {
  for (const auto& used : optimizers_)
    TANDEM_CHECK(used.optimizer != &optimizer, "Trainer::use: this optimizer is already in use");
  optimizers_.push_back({&optimizer, std::move(schedule), counts, nullptr});
  for (const Tensor& parameter : optimizer.parameters()) parameters_.push_back(parameter);
}

void Update::begin(const Progress& progress, std::int64_t epochs) {
  TANDEM_CHECK(!optimizers_.empty(), "Trainer: no optimizer is in use: call use(optimizer) first");
  for (auto& used : optimizers_) {
    check_.guard(*used.optimizer);
    if (!used.make_schedule) continue;
    const auto count = used.counts == Counts::steps ? progress.planned_steps() : epochs;
    used.schedule =
        std::make_unique<optim::LrScheduler>(*used.optimizer, used.make_schedule(std::max<std::int64_t>(1, count)));
  }
  follow_schedules(progress);
}

void Update::follow_schedules(const Progress& progress) {
  for (const auto& used : optimizers_)
    if (used.schedule)
      used.schedule->set_step(used.counts == Counts::steps ? progress.schedule_step() : progress.position().epoch);
}

void Update::operator()(const Tensor& loss, const Progress& progress) {
  TANDEM_CHECK(loss.numel() == 1, "Trainer: the loss of a batch must be one number, got the shape ", loss.shape());
  if (progress.begins_step())
    for (const auto& used : optimizers_) used.optimizer->zero_grad();
  if (zero_ && progress.begins_step()) zero_->zero_grad();
  check_.take_loss(loss.value());
  {
    const bool adds_shards = zero_ && zero_->divides_gradients();
    const auto local = ddp_.no_sync(server_ || (!progress.completes_step() && !adds_shards));
    const double weight = progress.weight();
    scaler_.scale(weight == 1 ? loss : weight * loss).backward();
  }
  if (!progress.completes_step()) return;
  std::string problem;
  const auto step = [&] { problem = make_step(); };
  if (server_) server_->step(step);
  else if (zero_) zero_->step(step);
  else step();
  if (!problem.empty()) check_.fail(problem);  // computes the batch again, for which it needs the whole parameters
}

std::string Update::make_step() {
  TANDEM_CHECK(std::ranges::any_of(parameters_, [](const Tensor& p) { return p.grad().defined(); }),
               "Trainer: no parameter of the optimizers has a gradient, so this step would train nothing: "
               "compute the loss with the Trainer's model");
  if (scaler_.is_enabled()) {
    if (max_norm_ || max_value_) {
      for (const auto& used : optimizers_) scaler_.unscale_(*used.optimizer);
      clip();
    }
  } else if (auto problem = check_.take_norm(clip()); !problem.empty()) {
    return problem;
  }
  bool is_left_out = false;
  for (const auto& used : optimizers_) is_left_out |= !scaler_.step(*used.optimizer);
  left_out_ += is_left_out;
  scaler_.update();
  if (!scaler_.is_enabled() || scaler_.scale() >= least_scale) return "";
  return "the loss scale of f16 has fallen to " + std::to_string(scaler_.scale()) +
         ", and the gradients are still not finite";
}

std::vector<double> Update::lrs() const {
  std::vector<double> lrs;
  for (const auto& used : optimizers_)
    for (int group = 0; group < used.optimizer->group_count(); ++group) lrs.push_back(used.optimizer->lr(group));
  return lrs;
}

void Update::set_lrs(const std::vector<double>& lrs) {
  auto lr = lrs.begin();
  for (const auto& used : optimizers_)
    for (int group = 0; group < used.optimizer->group_count(); ++group) used.optimizer->set_lr(*lr++, group);
}

Array Update::clip() {
  if (max_norm_ && !max_value_) return clip_by_norm();
  // Compute the norm before clipping, because clip_grad_value_() turns infinities into numbers. This norm is finite if
  // and only if all gradients are.
  constexpr double largest = std::numeric_limits<double>::infinity();
  const Array norm = zero_ ? zero_->grad_norm(parameters_, largest) : optim::grad_norm(parameters_, largest);
  if (max_value_) optim::clip_grad_value_(parameters_, *max_value_);
  if (max_norm_) clip_by_norm();
  return norm;
}

Array Update::clip_by_norm() {
  return zero_ ? zero_->clip_grad_norm_(parameters_, *max_norm_) : optim::clip_grad_norm_(parameters_, *max_norm_);
}

}  // namespace tandem::distributed

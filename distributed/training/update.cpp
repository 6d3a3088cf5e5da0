#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/training/update.h>
#include <tandem/optim/clip.h>

#include <cmath>
#include <limits>
#include <utility>

namespace tandem::distributed {
namespace {

// Below this loss scale, f16 training has failed: 30 steps in a row without a finite gradient bring the first scale
// there. fairseq's --min-loss-scale.
constexpr double least_scale = 1e-4;

}  // namespace

Update::Update(DistributedDataParallel& ddp, optim::GradScaler& scaler, Device device)
    : ddp_(ddp), scaler_(scaler), device_(device) {}

void Update::use(optim::Optimizer& optimizer, MakeSchedule schedule, Counts counts) {
  for (const auto& used : optimizers_)
    TANDEM_CHECK(used.optimizer != &optimizer, "Trainer::use: this optimizer is used already");
  optimizers_.push_back({&optimizer, std::move(schedule), counts, nullptr});
  for (const Tensor& parameter : optimizer.parameters()) parameters_.push_back(parameter);
}

void Update::begin(const Progress& progress, std::int64_t epochs) {
  TANDEM_CHECK(!optimizers_.empty(), "Trainer: no optimizer is to make the steps: call use(optimizer) first");
  if (!device_.is_cpu() && !scaler_.is_enabled()) {
    norms_ = ops::scalar(0, DType::f32, device_);
    for (const auto& used : optimizers_) used.optimizer->step_while_finite(norms_);
  }
  for (auto& used : optimizers_) {
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
  const std::int64_t step = progress.position().step + 1;
  if (finds_faults_at_once() && !std::isfinite(loss.value().item()))
    fail(std::isnan(loss.value().item()) ? "the loss is nan" : "the loss is infinite", step);
  {
    const auto local = ddp_.no_sync(server_ || !progress.completes_step());
    const double weight = progress.weight();
    scaler_.scale(weight == 1 ? loss : weight * loss).backward();
  }
  if (!progress.completes_step()) return;
  if (server_) server_->step([&] { make_step(step); });
  else make_step(step);
}

void Update::make_step(std::int64_t step) {
  if (scaler_.is_enabled()) {
    if (max_norm_ || max_value_) {
      for (const auto& used : optimizers_) scaler_.unscale_(*used.optimizer);
      clip();
    }
  } else {
    const Array norm = clip();
    if (norms_.defined()) ops::add_(norms_, norm);
    else if (!std::isfinite(norm.item())) fail("a gradient is not finite", step);
  }
  for (const auto& used : optimizers_) scaler_.step(*used.optimizer);
  scaler_.update();
  if (scaler_.is_enabled() && scaler_.scale() < least_scale)
    fail("the loss scale of f16 has fallen to " + std::to_string(scaler_.scale()) +
             ", and the gradients are not finite yet",
         step);
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
  if (max_norm_ && !max_value_) return optim::clip_grad_norm_(parameters_, *max_norm_);
  // Of the gradients as they are: clip_grad_value_() makes numbers of infinities. This norm is finite exactly when all
  // gradients are.
  const Array norm = optim::grad_norm(parameters_, std::numeric_limits<double>::infinity());
  if (max_value_) optim::clip_grad_value_(parameters_, *max_value_);
  if (max_norm_) optim::clip_grad_norm_(parameters_, *max_norm_);
  return norm;
}

void Update::fail(const std::string& what, std::int64_t step) {
  std::string where = "DetectAnomaly (autograd/anomaly.h) around the forward and backward pass finds the operation";
  if (again_) {
    // On a GPU the batch is a later one, and the weights are still those of the step that failed.
    if (device_.is_cpu()) where = "computed once more, this rank's batch alone gives finite numbers";
    try {
      const DetectAnomaly detect;
      const auto local = ddp_.no_sync();
      for (const auto& used : optimizers_) used.optimizer->zero_grad();
      scaler_.scale(again_()).backward();
    } catch (const Error& error) {
      where = error.what();
    }
  }
  throw NotFinite("step " + std::to_string(step) + ": " + what +
                  ", so the training ends before it changes the weights. " + where);
}

}  // namespace tandem::distributed

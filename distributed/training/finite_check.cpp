#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/training/finite_check.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::distributed {

void FiniteCheck::guard(optim::Optimizer& optimizer) {
  if (options_.device().is_cpu() || scaler_.is_enabled()) return;
  if (!norms_.defined()) norms_ = ops::scalar(0, DType::f32, options_.device());
  optimizer.step_while_finite(norms_);
}

void FiniteCheck::begin_epoch(data::Loader& loader, const std::string& generator) {
  loader_ = &loader;
  epoch_ = loader.next_epoch();
  epoch_generator_ = default_generator();
  skip_generator_ = generator;
}

void FiniteCheck::begin_step(const Progress& progress, const Generator* generator) {
  if (!norms_.defined()) steps_.clear();
  steps_.push_back({progress, generator ? std::optional(*generator) : std::nullopt});
}

void FiniteCheck::take_loss(const Array& loss) {
  if (norms_.defined() || !has_loss_) return;
  if (const auto problem = problem_of(loss, "the loss"); !problem.empty()) fail(problem);
}

std::string FiniteCheck::take_norm(const Array& norm) {
  if (!norms_.defined()) return problem_of(norm, "the norm of the gradients");
  ops::add_(norms_, norm);
  return "";
}

std::string FiniteCheck::problem_of(const Array& number, const char* name) const {
  if (scaler_.is_enabled()) return "";
  const double value = number.item();
  return std::isfinite(value) ? "" : fmt::format("{} is {}", name, std::isnan(value) ? "nan" : "infinite");
}

void FiniteCheck::end_step(const Array& losses) {
  if (!norms_.defined()) return;
  steps_.back().sum = ops::zip(functors::Add{}, norms_, losses.to(norms_.device()));
  if (steps_.size() == most_steps) look();
}

void FiniteCheck::look() {
  if (!norms_.defined()) return;
  const auto is_at_fault = [](const Start& step) { return step.sum.defined() && !std::isfinite(step.sum.item()); };
  // Once a sum is not finite, all later sums are not finite either.
  if (!steps_.empty() && is_at_fault(steps_.back()))
    fail("the loss or a gradient is not finite", *std::find_if(steps_.begin(), steps_.end(), is_at_fault));
  steps_.clear();
}

void FiniteCheck::fail(const std::string& what) {
  if (steps_.empty()) throw NotFinite(what);  // a learning-rate trial (lr_trial.h) has no steps
  fail(what, steps_.back());
}

void FiniteCheck::fail(const std::string& what, const Start& step) {
  const auto operation = find_operation(step);
  const auto message =
      fmt::format("step {}: {}, so the training ends. {}", step.progress.position().step + 1, what,
                  operation.value_or("computed once more, this rank's batch alone gives finite numbers"));
  // All ranks see the averaged gradients. The launcher should blame a rank whose own gradients are not finite.
  if (!operation && group_.size() > 1 && !options_.trains_alone()) throw PeerError(message + ": see the other ranks");
  throw NotFinite(message);
}

std::optional<std::string> FiniteCheck::find_operation(const Start& step) {
  if (!loss_of_) return "DetectAnomaly (autograd/anomaly.h) around the forward and backward pass finds the operation";
  // A batch norm over all ranks would wait for the other ranks.
  if (options_.sync_bn && group_.size() > 1)
    return "With --sync-bn on several ranks the operation is not looked for: without it, or on one process, it is "
           "named";
  try {
    const DetectAnomaly detect;
    for (const auto& [name, tensor] : ddp_.model().parameters())
      if (const auto found = autograd::anomaly_in(tensor.value()); !found.empty())
        return fmt::format("The weights are not finite either: {}: {}", name, found);
    compute_again(step);
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

void FiniteCheck::compute_again(const Start& step) {
  const auto local = ddp_.no_sync();
  const Autocast autocast(options_.dtype);
  ddp_.model().zero_grad();
  Progress progress = step.progress;
  default_generator() = epoch_generator_;
  loader_->epoch(epoch_).skip(progress.position().batch, step.generator ? step.generator->state() : skip_generator_);
  for (const data::Batch& batch : *loader_) {
    if (!is_empty(batch)) {
      const Tensor loss = loss_of_(ddp_.model(), batch.to(options_.device()));
      scaler_.scale(progress.weight() * loss).backward();
    }
    if (progress.completes_step()) return;
    progress.count();
  }
}

}  // namespace tandem::distributed

#include <tandem/autograd/autocast.h>
#include <tandem/core/random/random.h>
#include <tandem/data/loader.h>
#include <tandem/distributed/training/metrics/evaluation.h>

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace tandem::distributed {

Evaluation::Evaluation(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group,
                       DistributedDataParallel& ddp, TrainingLog& log)
    : options_(options), group_(std::move(group)), ddp_(ddp), log_(log), ranking_(options.keep_best, options.top_k) {}

void Evaluation::try_out(const Progress& progress) {
  is_trying_out_ = true;
  auto figures = log_.epoch_figures(progress, 0);
  const auto metrics = run();
  figures.insert(figures.end(), metrics.begin(), metrics.end());
  ranking_.check(figures);
  is_trying_out_ = false;
}

// Restores the random numbers of the training after the evaluation, so the weights do not depend on the number of
// evaluations.
std::vector<Metric> Evaluation::run() {
  if (!evaluate_) return {};
  return log_.aside([this] {
    const Generator before = default_generator();
    ddp_.eval();
    const NoGrad no_grad;
    const Autocast autocast(options_.dtype);
    std::optional<data::BatchLimit> one;
    if (is_trying_out_ || options_.fast_dev_run) one.emplace(1);
    auto metrics = evaluate_();
    ddp_.train();
    default_generator() = before;
    log_.check_names(metrics);
    return metrics;
  });
}

void Evaluation::finish() const {
  // If the training is out of patience, it has already printed a line about that.
  if (!ranking_.is_on() || ranking_.best_step() >= 0 || ranking_.since() == 0 || is_out_of_patience()) return;
  log_.note(fmt::format("warning: there is no best checkpoint by {}: no finite value in {}", ranking_.wanted(),
                        counted(ranking_.since(), "evaluation")));
}

bool Evaluation::consider(const std::vector<Metric>& figures, const Progress& progress) {
  if (!ranking_.is_on()) return false;
  // Times and the total loss differ between ranks, so rank 0 decides.
  const bool has_place_here = ranking_.consider(figures, progress.position().step);
  const std::string said =
      group_->broadcast_string((has_place_here ? "keep " : "drop ") + ranking_.state_text(), 0, "the best evaluations");
  const bool has_place = said.starts_with("keep ");
  ranking_.set_state(said.substr(said.find(' ') + 1));
  if (has_place && ranking_.since() == 0) log_.note("the best so far: " + ranking_.text());
  if (is_out_of_patience())
    log_.note(fmt::format("{} without a better {}: the training ends; the best was {}",
                          counted(options_.patience, "evaluation"), ranking_.wanted(), ranking_.text()));
  return has_place;
}

}  // namespace tandem::distributed

// Evaluation: the program's own figures: when they are computed, and which of them were the best.
#pragma once

#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/distributed/training/metrics/ranking.h>
#include <tandem/distributed/training/metrics/training_log.h>
#include <tandem/distributed/training/options/training_options.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

// What the constructor gets must outlive the object. All functions are collective.
class Evaluation {
 public:
  using Evaluate = std::function<std::vector<Metric>()>;

  Evaluation(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, DistributedDataParallel& ddp,
             TrainingLog& log);

  void set(const Evaluate& evaluate) { evaluate_ = evaluate; }
  bool is_there() const { return static_cast<bool>(evaluate_); }

  // Evaluates one batch before the training, and drops the figures. So an error of the evaluation, or a --keep-best
  // that no figure has, is found before hours of training.
  void try_out(const Progress& progress);
  bool is_trying_out() const { return is_trying_out_; }
  // The program's figures; none without a function.
  std::vector<Metric> run();
  // Returns whether the current checkpoint is kept for `figures`. Prints a line when they are the best ones so far.
  // Rank 0 decides.
  bool consider(const std::vector<Metric>& figures, const Progress& progress);
  // The training is over. A warning where figures were compared and none was the best.
  void finish() const;
  bool is_out_of_patience() const { return options_.patience > 0 && ranking_.since() >= options_.patience; }

  Ranking& ranking() { return ranking_; }
  const Ranking& ranking() const { return ranking_; }

 private:
  const TrainingOptions& options_;
  const std::shared_ptr<ProcessGroup> group_;
  DistributedDataParallel& ddp_;
  TrainingLog& log_;
  Ranking ranking_;
  Evaluate evaluate_;
  bool is_trying_out_ = false;
};

}  // namespace tandem::distributed

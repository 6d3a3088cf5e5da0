// Evaluation: computes the program's own metrics, and ranks them.
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

// The constructor's arguments must outlive the object. All functions are collective.
class Evaluation {
 public:
  using Evaluate = std::function<std::vector<Metric>()>;

  Evaluation(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, DistributedDataParallel& ddp,
             TrainingLog& log);

  void set(const Evaluate& evaluate) { evaluate_ = evaluate; }
  bool is_there() const { return static_cast<bool>(evaluate_); }

  // Evaluates one batch before the training, and discards the metrics. This detects an error in the evaluation, or an
  // unknown metric in --keep-best, before hours of training.
  void try_out(const Progress& progress);
  bool is_trying_out() const { return is_trying_out_; }
  // Returns the program's metrics, or no metrics if no function is set.
  std::vector<Metric> run();
  // Returns whether to keep the current checkpoint because of `figures`. Prints a line if they are the best so far.
  // Rank 0 decides.
  bool consider(const std::vector<Metric>& figures, const Progress& progress);
  // Called when the training is over. Prints a warning if metrics were compared and none was the best.
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

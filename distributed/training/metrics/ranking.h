// Ranking: determines the best evaluations of a training (--keep-best, --top-k), and how long ago the best one was
// (--patience).
#pragma once

#include <tandem/distributed/training/metrics/metric.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tandem::distributed {

class Ranking {
 public:
  // `wanted` is "max:test_accuracy" or "min:total_loss", or empty to compare nothing. Throws a UsageError for any other
  // text. `places` is the maximum number of evaluations in the ranking.
  Ranking(const std::string& wanted, std::int64_t places);

  bool is_on() const { return !name_.empty(); }
  // Throws a UsageError that lists the available names if `figures` does not contain the wanted metric.
  void check(const std::vector<Metric>& figures) const;
  // Adds an evaluation with these metrics. Returns whether it has a place in the ranking. A value that is not finite
  // never has.
  bool consider(const std::vector<Metric>& figures, std::int64_t step);

  std::int64_t best_step() const { return places_.empty() ? -1 : places_[0].step; }  // -1: there is none
  std::int64_t since() const { return since_; }  // number of evaluations after the best one
  // Returns the steps whose checkpoints must stay: the steps with a place, and the steps that earlier starts of the job
  // chose to keep.
  std::set<std::int64_t> kept_steps() const;
  bool has_place(std::int64_t step) const;
  // Removes a step from the ranking, because its checkpoint can't be read. If `may_be_whole` is true, the checkpoint is
  // still kept. If the step was the best one, since() starts again from 0.
  void lose(std::int64_t step, bool may_be_whole);
  std::string text() const;  // describes the best evaluation: "test accuracy 98.20 % after 40 steps"

  // Convert the places to a text, for a checkpoint or another rank, and back. set_state() throws an Error for any other
  // text.
  std::string state_text() const;
  void set_state(const std::string& state_text);
  // Returns the criterion of the ranking. It is the `wanted` of the checkpoint if this start of the job has none.
  const std::string& wanted() const { return wanted_; }
  // Continues from the state of a checkpoint. `kept` is its kept_steps(). A ranking by a different metric starts
  // afresh. A checkpoint that has lost its place is still kept.
  void go_on(const std::string& wanted, const std::string& state_text, const std::set<std::int64_t>& kept);
  // Returns the kept steps that are not in the ranking of this start of the job.
  std::set<std::int64_t> others() const;

 private:
  struct Place {
    double value = 0;
    std::int64_t step = 0;
  };
  const Metric* find(const std::vector<Metric>& figures) const;
  bool is_better(double a, double b) const { return larger_is_better_ ? a > b : a < b; }

  std::string wanted_, name_;
  std::size_t most_;
  bool larger_is_better_ = false;
  Metric::Kind kind_ = Metric::Kind::number;
  std::vector<Place> places_;  // the best one first
  std::int64_t since_ = 0;
  std::set<std::int64_t> kept_before_;
};

}  // namespace tandem::distributed

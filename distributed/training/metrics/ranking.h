// Ranking: which evaluations of a training were the best ones (--keep-best, --top-k), and how long ago the best one was
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
  // `wanted`: "max:test_accuracy" or "min:total_loss"; empty: nothing is compared. UsageError for another text.
  // `places`: the largest number of evaluations that it ranks.
  Ranking(const std::string& wanted, std::int64_t places);

  bool is_on() const { return !name_.empty(); }
  // UsageError, with the names that there are, when `figures` does not have the one that is wanted.
  void check(const std::vector<Metric>& figures) const;
  // An evaluation gave these. Whether it has a place. A value that is not finite never has.
  bool consider(const std::vector<Metric>& figures, std::int64_t step);

  std::int64_t best_step() const { return places_.empty() ? -1 : places_[0].step; }  // -1: there is none
  std::int64_t since() const { return since_; }                                      // evaluations after the best one
  // The steps whose checkpoints must stay: those with a place, and what earlier starts of the job chose to keep.
  std::set<std::int64_t> kept_steps() const;
  bool has_place(std::int64_t step) const;
  // The checkpoint of that step can't be read, so it has no place any more. `may_be_whole`: it is kept all the same.
  // If it was the best one, the count of evaluations after the best one starts again.
  void lose(std::int64_t step, bool may_be_whole);
  std::string text() const;  // of the best one: "test accuracy 98.20 % after 40 steps"

  // The places as a text, for a checkpoint or another rank, and back from it. Error for any other text.
  std::string state_text() const;
  void set_state(const std::string& state_text);
  // What the places are by. It is the `wanted` of the checkpoint where this start of the job has none of its own.
  const std::string& wanted() const { return wanted_; }
  // Continues from a checkpoint that has these, and `kept` as its kept_steps(). A ranking by a different metric starts
  // afresh. A checkpoint that has lost its place is still kept.
  void go_on(const std::string& wanted, const std::string& state_text, const std::set<std::int64_t>& kept);
  // The kept steps for which this start of the job has no place.
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

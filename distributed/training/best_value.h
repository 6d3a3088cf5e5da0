// BestValue: which evaluation of a training was the best one (--keep-best), and how long ago it was (--patience).
#pragma once

#include <tandem/distributed/training/metric.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::distributed {

class BestValue {
 public:
  // `wanted`: "max:test_accuracy" or "min:total_loss"; empty: nothing is compared. UsageError for another text.
  explicit BestValue(const std::string& wanted);

  bool is_on() const { return !name_.empty(); }
  // UsageError, with the names that there are, when `figures` does not have the one that is wanted.
  void check(const std::vector<Metric>& figures) const;
  // An evaluation gave these. Whether it is the best one so far. A value that is not finite never is.
  bool consider(const std::vector<Metric>& figures, std::int64_t step);

  struct State {
    double value = 0;
    std::int64_t step = -1;  // of the best evaluation; -1: there is none
    std::int64_t since = 0;  // evaluations after it
  };
  const State& state() const { return state_; }
  // The state as a text, for a checkpoint or another rank, and back from it. Error for any other text.
  std::string state_text() const;
  void go_on(const std::string& state_text);
  const std::string& wanted() const { return wanted_; }
  std::string text() const;  // of the best one: "test accuracy 98.20 % after 40 steps"

 private:
  const Metric* find(const std::vector<Metric>& figures) const;

  std::string wanted_, name_;
  bool larger_is_better_ = false;
  Metric::Kind kind_ = Metric::Kind::number;
  State state_;
};

}  // namespace tandem::distributed

// JoinRounds: how training goes on while some ranks have run out of data.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <memory>

namespace tandem::distributed {

struct JoinOptions {
  // What the sum of the gradients is divided by. True: the size of the group, so that every sample of a rank counts the
  // same throughout. False: the number of ranks that still have data, so that every step is a mean over those ranks.
  bool divide_by_initial_world_size = true;
  // True: when the first rank runs out of data, training ends with an Error on all ranks. This is for models that
  // communicate in forward: a rank without data cannot take part in that.
  bool throw_on_early_termination = false;
};

// Before each step that all ranks take together, every rank tells the others in one small message what it is about to
// do. A rank without data says so, learns what the others do, and takes part in it with zeros. Only the thread that
// trains may use this class.
class JoinRounds {
 public:
  enum class Step { none, forward, buffers, backward };

  JoinRounds(std::shared_ptr<ProcessGroup> group, const JoinOptions& options);
  const JoinOptions& options() const { return options_; }

  void announce(Step step);  // starts the round and does not wait; collective
  // Waits for what the other ranks announced. Throws an Error when two ranks want different steps.
  void finish();
  void meet(Step step) {
    announce(step);
    finish();
  }

  // The results of the last round:
  Step step() const { return step_; }          // the step of the ranks that have data
  int active() const { return active_; }       // the number of ranks that have data
  int absent_rank() const { return absent_; }  // the first rank without data, or -1
  // The rank whose model counts at the end: the highest of the ranks that had data in the last round with any data.
  int lead() const { return lead_; }

 private:
  const std::shared_ptr<ProcessGroup> group_;
  const JoinOptions options_;
  Array steps_;  // (ranks), i64
  std::shared_ptr<Work> work_;
  Step step_ = Step::none;
  int active_ = 0;
  int absent_ = -1;
  int lead_ = 0;
};

}  // namespace tandem::distributed

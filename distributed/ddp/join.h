// Joining: training on while some ranks have run out of data.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <memory>

namespace tandem::distributed {

struct JoinOptions {
  // By what the sum of the gradients is divided: the size of the group (every sample of a rank counts the same
  // throughout), or the number of ranks that still have data (every step is a mean of equal size).
  bool divide_by_initial_world_size = true;
  // The first rank that runs out of data ends training with an Error, on all ranks: for models that communicate
  // in forward, which a rank without data can't follow.
  bool throw_on_early_termination = false;
};

// Before whatever all ranks do together, each says what it is about to do, in one small message; a rank without
// data says so, learns what the others do, and takes part with nothing to give. Used by the thread that trains.
class JoinRounds {
 public:
  enum class Step { none, forward, buffers, backward };

  JoinRounds(std::shared_ptr<ProcessGroup> group, const JoinOptions& options);
  const JoinOptions& options() const { return options_; }

  void announce(Step step);  // starts; collective
  // Waits for what the others announced. Error where two of them want different things.
  void finish();
  void meet(Step step) {
    announce(step);
    finish();
  }

  // Of the last round:
  Step step() const { return step_; }          // of the ranks that have data
  int active() const { return active_; }       // how many those are
  int absent_rank() const { return absent_; }  // the first without, or -1
  // The last of the ranks that had data when any rank last had: whose model counts.
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

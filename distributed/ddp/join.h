// join(): lets the other ranks continue to train when a rank has run out of data.
#pragma once

#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/ddp/step_rounds.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/optim/optimizer.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem::distributed {

struct JoinOptions {
  // The divisor of the sum of the gradients. True: the size of the group. Every sample of a rank then has the same
  // weight throughout. False: the number of ranks that still have data. Every step is then a mean over those ranks.
  bool divide_by_initial_world_size = true;
  // True: training ends with an Error on all ranks when the first rank runs out of data. This is for models that
  // communicate in forward, because a rank without data can't take part there.
  bool throw_on_early_termination = false;
  // The optimizers of the loop. At the end, all ranks copy the optimizer state of the rank that trained last, as they
  // copy its model. Without that, ranks that ran out of data would continue with their old momentum, and the ranks
  // would diverge.
  std::vector<optim::Optimizer*> optimizers = {};
};

// Runs `body`, a training loop with `ddp` that may have fewer steps on some ranks than on others. A rank whose loop has
// ended takes part in the steps of the others, with zero gradients, until all loops have ended. Then all ranks copy the
// model of the rank that trained last. Inside `body`, only backward passes and buffers may use the group. If a rank's
// data ends under no_sync(), its accumulated gradients are lost. Collective.
void join(DistributedDataParallel& ddp, const std::function<void()>& body, const JoinOptions& options = {});

// Before each step that all ranks take together, every rank announces its next step to the others in one small message.
// A rank without data announces that, receives the step of the others, and takes part in it with zeros. Only the
// training thread may use this class.
class JoinRounds final : public StepRounds {
 public:
  enum class Step { none, forward, buffers, backward };

  JoinRounds(std::shared_ptr<ProcessGroup> group, const JoinOptions& options);

  void begin_forward() override;
  int share_buffers() override;
  void begin_backward() override { announce(Step::backward); }
  double end_backward() override;

  void announce(Step step);  // starts the round without waiting; collective
  // Waits for the announcements of the other ranks. Throws an Error if two ranks announce different steps.
  void finish();
  void agree_on(Step step) {
    announce(step);
    finish();
  }

  // Return the results of the last round:
  Step step() const { return step_; }     // the step of the ranks that have data
  int active() const { return active_; }  // the number of ranks that have data
  // Returns the rank whose model counts at the end: the highest rank with data, in the last round in which any rank had
  // data.
  int lead() const override { return lead_; }
  // Throws an Error if some ranks have data and others have none.
  void fail_for_absent() const;

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

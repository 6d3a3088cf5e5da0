// join(): the other ranks continue to train when a rank has run out of data.
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
  // The divisor of the sum of the gradients. True: the size of the group, so that every sample of a rank counts the
  // same throughout. False: the number of ranks that still have data, so that every step is a mean over those ranks.
  bool divide_by_initial_world_size = true;
  // True: when the first rank runs out of data, training ends with an Error on all ranks. This is for models that
  // communicate in forward: a rank without data cannot take part in that.
  bool throw_on_early_termination = false;
  // The optimizers of the loop: at the end all ranks get the state of the rank that trained last, as they get its
  // model. Without it, ranks that ran out of data continue with their old momentum, and the ranks diverge.
  std::vector<optim::Optimizer*> optimizers = {};
};

// Runs `body`, a training loop with `ddp` that may have fewer steps on some ranks than on others. A rank whose loop has
// ended takes part in the steps of the others, with gradients of zero, until all loops have ended. Then all ranks get
// the model of the rank that trained last. Inside, the group may be used for backward passes and buffers only.
// Gradients that a rank has accumulated under no_sync when its data ends are lost. Collective.
void join(DistributedDataParallel& ddp, const std::function<void()>& body, const JoinOptions& options = {});

// Before each step that all ranks take together, every rank tells the others in one small message what it is about to
// do. A rank without data says so, learns what the others do, and takes part in it with zeros. Only the thread that
// trains may use this class.
class JoinRounds final : public StepRounds {
 public:
  enum class Step { none, forward, buffers, backward };

  JoinRounds(std::shared_ptr<ProcessGroup> group, const JoinOptions& options);

  void begin_forward() override;
  int share_buffers() override;
  void begin_backward() override { announce(Step::backward); }
  double end_backward() override;

  void announce(Step step);  // starts the round and does not wait; collective
  // Waits for what the other ranks announced. Throws an Error when two ranks want different steps.
  void finish();
  void agree_on(Step step) {
    announce(step);
    finish();
  }

  // The results of the last round:
  Step step() const { return step_; }     // the step of the ranks that have data
  int active() const { return active_; }  // the number of ranks that have data
  // The rank whose model counts at the end: the highest of the ranks that had data in the last round with any data.
  int lead() const override { return lead_; }
  // Error if some ranks have data and others have none.
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

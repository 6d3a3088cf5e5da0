// Update: updates the weights for a batch: backward pass, averages over ranks, clipping, the optimizers and their
// schedules.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/parameter_server.h>
#include <tandem/distributed/strategies/zero_redundancy.h>
#include <tandem/distributed/training/finite_check.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/lr_scheduler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::distributed {

// The arguments of the constructor and of use() must outlive the object.
class Update {
 public:
  using MakeSchedule = std::function<optim::Schedule(std::int64_t count)>;
  enum class Counts { steps, epochs };

  // With f16, a step whose gradients are not finite is skipped, and the loss scale falls. If it has fallen to nearly 0,
  // the step throws NotFinite.
  Update(DistributedDataParallel& ddp, optim::GradScaler& scaler, FiniteCheck& check)
      : ddp_(ddp), scaler_(scaler), check_(check) {}

  // Sends gradients to a server and receives new parameters from it, instead of averaging in the backward pass.
  void through(ParameterServer& server) { server_ = &server; }
  // Updates this rank's shards of the parameters, and gathers those of the other ranks.
  void through(ZeroRedundancy& zero);

  void use(optim::Optimizer& optimizer, MakeSchedule schedule = {}, Counts counts = Counts::steps);
  void clip_norm(double max_norm) { max_norm_ = max_norm; }
  void clip_value(double max_value) { max_value_ = max_value; }

  // Returns how many steps f16 has skipped since the last call.
  std::int64_t take_left_out() { return std::exchange(left_out_, 0); }

  // Makes the schedules. Call it once, after a checkpoint has been read.
  void begin(const Progress& progress, std::int64_t epochs);
  // Sets the learning rates of the next step.
  void follow_schedules(const Progress& progress);
  double lr() const { return optimizers_.at(0).optimizer->lr(); }
  // Returns the learning rates of all parameter groups of all optimizers.
  std::vector<double> lrs() const;
  void set_lrs(const std::vector<double>& lrs);

  // Adds the gradients of the batch at `progress`, and makes a step if the batch completes one. If the loss or a
  // gradient is not finite, the weights do not change; see FiniteCheck.
  void operator()(const Tensor& loss, const Progress& progress);

 private:
  struct Used {
    optim::Optimizer* optimizer;
    MakeSchedule make_schedule;  // empty: none
    Counts counts;
    std::unique_ptr<optim::LrScheduler> schedule;
  };

  std::string make_step();  // returns why the training can't continue; empty: it can
  Array clip();             // returns a norm of the gradients, () f32 on their device
  Array clip_by_norm();

  DistributedDataParallel& ddp_;
  optim::GradScaler& scaler_;
  FiniteCheck& check_;
  ParameterServer* server_ = nullptr;
  ZeroRedundancy* zero_ = nullptr;
  std::vector<Used> optimizers_;
  std::vector<Tensor> parameters_;  // of all optimizers
  std::optional<double> max_norm_, max_value_;
  std::int64_t left_out_ = 0;
};

}  // namespace tandem::distributed

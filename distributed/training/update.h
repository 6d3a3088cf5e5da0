// Update: what a batch does to the weights: backward, averages over ranks, clipping, the optimizers and their
// schedules.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/parameter_server.h>
#include <tandem/distributed/training/finite_check.h>
#include <tandem/distributed/training/metrics/progress.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/lr_scheduler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::distributed {

// What the constructor and use() get must outlive the object.
class Update {
 public:
  using MakeSchedule = std::function<optim::Schedule(std::int64_t count)>;
  enum class Counts { steps, epochs };

  // With f16, a step whose gradients are not finite is left out, and the loss scale falls. When it has fallen to nearly
  // nothing, that is the NotFinite.
  Update(DistributedDataParallel& ddp, optim::GradScaler& scaler, FiniteCheck& check)
      : ddp_(ddp), scaler_(scaler), check_(check) {}

  // Gradients go to a server and new parameters come from it, in place of averages in the backward pass.
  void through(ParameterServer& server) { server_ = &server; }

  void use(optim::Optimizer& optimizer, MakeSchedule schedule = {}, Counts counts = Counts::steps);
  void clip_norm(double max_norm) { max_norm_ = max_norm; }
  void clip_value(double max_value) { max_value_ = max_value; }

  // How many steps f16 has left out since the last call.
  std::int64_t take_left_out() { return std::exchange(left_out_, 0); }

  // Makes the schedules. To be called once, when a checkpoint has been read.
  void begin(const Progress& progress, std::int64_t epochs);
  // Sets the learning rates of the next step.
  void follow_schedules(const Progress& progress);
  double lr() const { return optimizers_.at(0).optimizer->lr(); }
  // The learning rates of all parameter groups of all optimizers.
  std::vector<double> lrs() const;
  void set_lrs(const std::vector<double>& lrs);

  // Adds the gradients of the batch that `progress` is at, and makes the step that it completes. When the loss or a
  // gradient is not finite, the weights stay as they were; see FiniteCheck.
  void operator()(const Tensor& loss, const Progress& progress);

 private:
  struct Used {
    optim::Optimizer* optimizer;
    MakeSchedule make_schedule;  // empty: none
    Counts counts;
    std::unique_ptr<optim::LrScheduler> schedule;
  };

  void make_step();
  Array clip();  // returns a norm of the gradients, () f32 on their device

  DistributedDataParallel& ddp_;
  optim::GradScaler& scaler_;
  FiniteCheck& check_;
  ParameterServer* server_ = nullptr;
  std::vector<Used> optimizers_;
  std::vector<Tensor> parameters_;  // of all optimizers
  std::optional<double> max_norm_, max_value_;
  std::int64_t left_out_ = 0;
};

}  // namespace tandem::distributed

// Update: what a batch does to the weights: backward, averages over ranks, clipping, the optimizers and their
// schedules.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/parameter_server.h>
#include <tandem/distributed/training/progress.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/lr_scheduler.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// A loss or gradient is NaN or infinite.
class NotFinite : public Error {
 public:
  using Error::Error;
};

// What the constructor and use() get must outlive the object.
class Update {
 public:
  using MakeSchedule = std::function<optim::Schedule(std::int64_t count)>;
  enum class Counts { steps, epochs };

  // On the CPU the loss and the gradients are checked before each step. A GPU leaves out the steps from the first one
  // whose gradients are not finite, and is_finite() tells it later. With f16,
  // a step whose gradients are not finite is left out, and its loss scale falls; when it has fallen to nearly nothing,
  // that is the Error.
  Update(DistributedDataParallel& ddp, optim::GradScaler& scaler, Device device);

  // Gradients go to a server and new parameters come from it, in place of averages in the backward pass.
  void through(ParameterServer& server) { server_ = &server; }

  void use(optim::Optimizer& optimizer, MakeSchedule schedule = {}, Counts counts = Counts::steps);
  void clip_norm(double max_norm) { max_norm_ = max_norm; }
  void clip_value(double max_value) { max_value_ = max_value; }

  // Makes the schedules. To be called once, when a checkpoint has been read.
  void begin(const Progress& progress, std::int64_t epochs);
  // Sets the learning rates of the next step.
  void follow_schedules(const Progress& progress);
  double lr() const { return optimizers_.at(0).optimizer->lr(); }
  // The learning rates of all parameter groups of all optimizers.
  std::vector<double> lrs() const;
  void set_lrs(const std::vector<double>& lrs);

  // For an Error that names the operation: computes the loss of the batch that runs once more.
  void set_again(std::function<Tensor()> again) { again_ = std::move(again); }

  // Adds the gradients of the batch that `progress` is at, and makes the step that it completes. NotFinite when the
  // loss or a gradient is not; then the weights are as they were.
  void operator()(const Tensor& loss, const Progress& progress);

  // Whether the gradients of all steps were finite. Waits for the device.
  bool is_finite() const { return !norms_.defined() || std::isfinite(norms_.item()); }
  // From here on, steps are made again.
  void forget_faults() {
    if (norms_.defined()) norms_.fill(0);
  }
  // Throws the NotFinite of the step of that number.
  [[noreturn]] void fail(const std::string& what, std::int64_t step);

 private:
  struct Used {
    optim::Optimizer* optimizer;
    MakeSchedule make_schedule;  // empty: none
    Counts counts;
    std::unique_ptr<optim::LrScheduler> schedule;
  };

  bool finds_faults_at_once() const { return device_.is_cpu() && !scaler_.is_enabled(); }
  void make_step(std::int64_t step);
  Array clip();  // returns a norm of the gradients, () f32 on their device

  DistributedDataParallel& ddp_;
  optim::GradScaler& scaler_;
  const Device device_;
  ParameterServer* server_ = nullptr;
  std::vector<Used> optimizers_;
  std::vector<Tensor> parameters_;  // of all optimizers
  std::optional<double> max_norm_, max_value_;
  Array norms_;  // on a GPU: the sum of the norms of all steps, while which is finite steps are made; else undefined
  std::function<Tensor()> again_;
};

}  // namespace tandem::distributed

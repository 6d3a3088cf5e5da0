// Strategy: lets the processors of a job train one model together, with DistributedDataParallel or another --strategy.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/data/dataset.h>
#include <tandem/distributed/ddp/communication_meter.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/data_parallel.h>
#include <tandem/distributed/strategies/diloco.h>
#include <tandem/distributed/strategies/parameter_server.h>
#include <tandem/distributed/strategies/zero_redundancy.h>
#include <tandem/distributed/training/options/training_options.h>

#include <memory>
#include <optional>
#include <string>

namespace tandem::distributed {

// The constructor's arguments must outlive the object. Only one thread may use it.
class Strategy {
 public:
  using LossOf = DataParallel::LossOf;

  // Moves the model to its device, converts its batch norms (--sync-bn), and copies rank 0's values to all ranks.
  // `make_replica` may be empty, but throws a UsageError if --strategy dp needs it. Collective.
  Strategy(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
           const DataParallel::Factory& make_replica);

  // Holds the model. With ddp, ring, hierarchical and zero1, it averages gradients in the backward pass.
  DistributedDataParallel& ddp() { return zero_ ? zero_->ddp() : *ddp_; }
  // With ps, returns the server that receives gradients and sends new parameters, otherwise null.
  ParameterServer* server() { return server_ ? &*server_ : nullptr; }
  // With localsgd and diloco, returns the object that averages weights, otherwise null. Backward passes then average no
  // gradients.
  DiLoCo* diloco() { return diloco_ ? &*diloco_ : nullptr; }
  // With zero1 and zero2, returns the object that divides the optimizer state among the ranks, otherwise null.
  ZeroRedundancy* zero() { return zero_.get(); }
  // With zero1 and zero2, throws a UsageError if the state of this optimizer can't be divided.
  void use(optim::Optimizer& optimizer);
  // Returns the loss of a batch, computed by the model or by its replicas.
  Tensor loss(const data::Batch& batch, const LossOf& loss_of);
  bool has_replicas() const { return replicas_.has_value(); }
  // Throws a UsageError with dp, for a program that can compute only the loss of its own model.
  void require_no_replicas() const;

  // Return lines for the user: text() describes an unusual strategy, and report() says at the end how much of the
  // communication was hidden. They may be empty.
  std::string text() const;
  std::string report() const;

 private:
  const TrainingOptions& options_;
  const std::shared_ptr<ProcessGroup> group_;
  const std::unique_ptr<ZeroRedundancy> zero_;
  const std::unique_ptr<DistributedDataParallel> ddp_;  // without zero_
  const Temporarily<bool> alone_ = ddp().no_sync(options_.trains_alone());
  const std::shared_ptr<CommunicationMeter> meter_ = std::make_shared<CommunicationMeter>();
  std::optional<ParameterServer> server_;
  std::optional<DiLoCo> diloco_;
  std::optional<DataParallel> replicas_;
};

}  // namespace tandem::distributed

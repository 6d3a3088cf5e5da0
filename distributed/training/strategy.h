// Strategy: how the processors of a job train one model together: with DistributedDataParallel, or as --strategy says.
#pragma once

#include <tandem/data/dataset.h>
#include <tandem/distributed/ddp/communication_meter.h>
#include <tandem/distributed/ddp/distributed_data_parallel.h>
#include <tandem/distributed/strategies/data_parallel.h>
#include <tandem/distributed/strategies/parameter_server.h>
#include <tandem/distributed/training/options/training_options.h>

#include <memory>
#include <optional>
#include <string>

namespace tandem::distributed {

// What the constructor gets must outlive the object. For one thread.
class Strategy {
 public:
  using LossOf = DataParallel::LossOf;

  // Moves the model to its device, converts its batch norms (--sync-bn), and gives all ranks rank 0's values.
  // `make_replica` may be empty; UsageError where --strategy dp needs it. Collective.
  Strategy(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
           const DataParallel::Factory& make_replica);

  // The model, and with ddp and ring the averages in the backward pass.
  DistributedDataParallel& ddp() { return ddp_; }
  // Where gradients go and new parameters come from with ps; else null.
  ParameterServer* server() { return server_ ? &*server_ : nullptr; }
  // The loss of a batch, by the model or by its replicas.
  Tensor loss(const data::Batch& batch, const LossOf& loss_of);
  bool has_replicas() const { return replicas_.has_value(); }
  // UsageError with dp, for a program that computes the loss of its own model alone.
  void require_no_replicas() const;

  // Lines for people: what is unusual, and at the end how much of the communication was hidden. Empty: nothing to say.
  std::string text() const;
  std::string report() const;

 private:
  const TrainingOptions& options_;
  const std::shared_ptr<ProcessGroup> group_;
  DistributedDataParallel ddp_;
  const std::shared_ptr<CommunicationMeter> meter_ = std::make_shared<CommunicationMeter>();
  std::optional<ParameterServer> server_;
  std::optional<DataParallel> replicas_;
};

}  // namespace tandem::distributed

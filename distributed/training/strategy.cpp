#include <tandem/distributed/ddp/sync_batch_norm.h>
#include <tandem/distributed/strategies/hierarchical_all_reduce.h>
#include <tandem/distributed/training/metrics/console.h>
#include <tandem/distributed/training/strategy.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

nn::Module& prepared(nn::Module& model, const TrainingOptions& options, const std::shared_ptr<ProcessGroup>& group) {
  model.to(options.device());
  if (options.sync_bn) convert_sync_batch_norm(model, group);
  return model;
}

// Returns null without zero1 and zero2.
std::unique_ptr<ZeroRedundancy> make_zero(nn::Module& model, const std::shared_ptr<ProcessGroup>& group,
                                          const TrainingOptions& options) {
  const bool is_second = options.strategy == StrategyChoice::zero2;
  if (options.strategy != StrategyChoice::zero1 && !is_second) return nullptr;
  return std::make_unique<ZeroRedundancy>(
      model, group, ZeroRedundancyOptions{is_second ? 2 : 1, options.bucket_sizes(), options.unused});
}

// Returns the devices of the replicas: one replica for each thread, or for each GPU.
std::vector<Device> replica_devices(const TrainingOptions& options) {
  if (options.device().is_cpu())
    return std::vector<Device>(static_cast<std::size_t>(std::max<std::int64_t>(1, options.threads)));
  std::vector<Device> devices;
  for (int i = 0; i < device_count(Device::Kind::cuda); ++i) devices.push_back(Device::cuda(i));
  return devices;
}

}  // namespace

Strategy::Strategy(const TrainingOptions& options, std::shared_ptr<ProcessGroup> group, nn::Module& model,
                   const DataParallel::Factory& make_replica)
    : options_(options),
      group_(std::move(group)),
      zero_(make_zero(prepared(model, options, group_), group_, options)),
      ddp_(zero_ ? nullptr
                 : std::make_unique<DistributedDataParallel>(
                       model, group_,
                       DistributedDataParallelOptions{.buckets = options.bucket_sizes(), .unused = options.unused})) {
  if (!zero_)
    ddp_->set_communication_hook(options.strategy == StrategyChoice::hierarchical ? hierarchical_hook(group_)
                                                                                  : options.communication_hook());
  ddp().observe(meter_);
  // There is one server, because checkpoints contain the optimizer state of only one.
  if (options.strategy == StrategyChoice::ps) server_.emplace(model, group_, 1);
  if (options.trains_alone()) {
    DiLoCoOptions diloco{.inner_steps = options.inner_steps};
    if (options.strategy == StrategyChoice::localsgd) diloco.outer = local_sgd;
    diloco_.emplace(model, group_, diloco);
  }
  if (options.strategy != StrategyChoice::dp) return;
  if (!make_replica) require_no_replicas();
  replicas_.emplace(model, make_replica, replica_devices(options));
}

Tensor Strategy::loss(const data::Batch& batch, const LossOf& loss_of) {
  return replicas_ ? replicas_->mean_loss(batch, loss_of) : loss_of(ddp().model(), batch);
}

void Strategy::use(optim::Optimizer& optimizer) {
  if (!zero_) return;
  if (!ZeroRedundancy::can_divide(optimizer))
    throw UsageError(std::string("--strategy ") + name_of(options_.strategy) + " can't divide the state of " +
                     optimizer.name() + ", which computes with whole parameters: use --strategy ddp");
  zero_->use(optimizer);
}

void Strategy::require_no_replicas() const {
  if (options_.strategy == StrategyChoice::dp)
    throw UsageError("--strategy dp: " + options_.program() +
                     " does not define how to make a replica of its model and compute its loss: see docs/trainer.md");
}

std::string Strategy::text() const {
  if (options_.strategy == StrategyChoice::ddp) return "";
  return std::string("strategy ") + name_of(options_.strategy) +
         (replicas_ ? ": " + counted(replicas_->replicas(), "replica") + " of the model, a thread each" : "") +
         (server_ ? ": rank 0 has the parameters and the optimizer" : "") +
         (diloco_ ? ": each rank trains alone, and all average their weights after every " +
                        counted(options_.inner_steps, "step")
                  : "") +
         (zero_ ? ": the optimizer state is divided among " + counted(group_->size(), "rank") : "");
}

std::string Strategy::report() const {
  const bool is_metered = !server_ && !diloco_ && !(zero_ && zero_->divides_gradients());
  return group_->size() > 1 && is_metered ? meter_->report().to_string() : "";
}

}  // namespace tandem::distributed

#include <tandem/autograd/graph.h>
#include <tandem/core/array/memory_order.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/strategies/gradient_shards.h>
#include <tandem/distributed/strategies/parameter_shards.h>

#include <string>
#include <utility>

namespace tandem::distributed {

GradientShards::GradientShards(DistributedDataParallel& ddp, BucketSizes sizes)
    : ddp_(ddp), parameters_(ddp.model().parameters()), bucket_of_(parameters_.size()) {
  for (const auto& [name, tensor] : parameters_)  // check before adding hooks, which would outlive an error
    TANDEM_CHECK(!tensor.has_grad_buffer(), "parameter ", name,
                 " belongs to a DistributedDataParallel, which would average nothing from now on: destroy it first");
  const int rank = ddp.group()->rank(), ranks = ddp.group()->size();
  for (const auto& indices : assign_buckets(parameters_, reverse_registration_order(parameters_), sizes)) {
    Bucket bucket{indices, {}};
    for (const std::size_t i : indices) {
      const Tensor& parameter = parameters_[i].tensor;
      const Array value = MemoryOrder(parameter.value()).arranged(parameter.value());
      bucket.shards.push_back(ops::zeros_like(shard(value, rank, ranks)));
      bucket_of_[i] = buckets_.size();
      shard_of_[parameter.state().get()] = bucket.shards.back();
      hook_handles_.push_back(parameter.on_grad_ready([this, i] { gradient_ready(i); }));
    }
    buckets_.push_back(std::move(bucket));
  }
}

GradientShards::~GradientShards() {
  for (auto& handle : hook_handles_) handle.remove();
}

Array GradientShards::of(const Tensor& parameter) const {
  const auto found = shard_of_.find(parameter.state().get());
  return has_gradients_ && found != shard_of_.end() ? found->second : Array();
}

void GradientShards::begin_pass() {
  for (const auto& [name, tensor] : parameters_)
    TANDEM_CHECK(!tensor.requires_grad() || shard_of_.contains(tensor.state().get()), "parameter ", name,
                 " requires a gradient now, but did not when GradientShards was made, so the ranks do not average it: "
                 "call set_requires_grad(true) first");
  started_ = 0;
  in_flight_.clear();
  reached_.assign(parameters_.size(), 0);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters.size();
  // The callback owns the token. When a backward pass fails, the engine drops its callbacks, the token expires, and the
  // next gradient begins a new pass.
  auto token = std::make_shared<char>();
  pass_ = token;
  after_backward([this, token = std::move(token)] { end_pass(); });
}

void GradientShards::gradient_ready(std::size_t parameter) {
  if (!ddp_.reducer().is_synchronising()) return;
  if (pass_.expired()) begin_pass();
  reached_[parameter] = 1;
  --buckets_[bucket_of_[parameter]].missing;
  start_full_buckets();
}

void GradientShards::start_full_buckets() {
  for (; started_ < buckets_.size() && buckets_[started_].missing == 0; ++started_) start(buckets_[started_]);
}

void GradientShards::start(const Bucket& bucket) {
  std::vector<Array> gradients;
  for (const std::size_t i : bucket.parameters) {
    // Tensor::grad() would lend the gradient to a program, and the loan would keep its memory.
    autograd::TensorState& state = *parameters_[i].tensor.state();
    gradients.push_back(std::exchange(state.has_grad, false)
                            ? std::exchange(state.grad, Array())
                            : ops::zeros(state.value.shape(), state.value.dtype(), state.value.device()));
  }
  reduce_scatter_shards(gradients, bucket.shards, has_gradients_, *ddp_.group(),
                        "gradient bucket " + std::to_string(started_) + " of shards " + std::to_string(number_),
                        in_flight_);
}

void GradientShards::end_pass() {
  pass_.reset();
  std::vector<std::string> absent;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (shard_of_.contains(parameters_[i].tensor.state().get()) && !reached_[i]) absent.push_back(parameters_[i].name);
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  start_full_buckets();
  for (const auto& work : in_flight_) work->wait();
  in_flight_.clear();
  has_gradients_ = ddp_.group()->max(absent.empty() ? 0 : 1, "unused parameters") == 0;
  if (!has_gradients_) fail_for_unused(*ddp_.group(), absent, shard_of_.size());
  ddp_.after_pass();
}

}  // namespace tandem::distributed

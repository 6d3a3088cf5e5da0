#include <tandem/autograd/graph.h>
#include <tandem/core/array/memory_order.h>
#include <tandem/core/base/temporarily.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/strategies/parameter_shards.h>
#include <tandem/distributed/strategies/zero_redundancy.h>
#include <tandem/optim/clip.h>
#include <tandem/optim/fused_optimizer.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <string>
#include <utility>

namespace tandem::distributed {
namespace {

// With stage 2, DistributedDataParallel is made while no parameter requires a gradient. It copies parameters and
// buffers to all ranks, but has no buckets, whose memory would be that of all gradients.
std::unique_ptr<DistributedDataParallel> make_ddp(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                                                  const ZeroRedundancyOptions& options) {
  TANDEM_CHECK(options.stage == 1 || options.stage == 2, "ZeroRedundancy: expected stage 1 or 2, got ", options.stage);
  TANDEM_CHECK(options.stage == 1 || options.unused == Unused::error, "ZeroRedundancy: stage 2 can't treat unused ",
               "parameters as Unused::", name_of(options.unused), ": use stage 1, or Unused::error");
  std::list<Temporarily<bool>> without_gradients;
  if (options.stage == 2) {
    for (const auto& [name, tensor] : model.parameters())
      without_gradients.emplace_back(tensor.state()->requires_grad, false);
  }
  return std::make_unique<DistributedDataParallel>(
      model, std::move(group), DistributedDataParallelOptions{.buckets = options.buckets, .unused = options.unused});
}

bool contains(const std::vector<Tensor>& tensors, const Tensor& one) {
  return std::ranges::any_of(tensors, [&](const Tensor& other) { return other.same_as(one); });
}

std::map<std::string, Tensor> parameters_by_name(const optim::Optimizer& optimizer) {
  const auto parameters = optimizer.parameters();
  std::map<std::string, Tensor> by_name;
  auto next = parameters.begin();
  for (int group = 0; group < optimizer.group_count(); ++group)
    for (const std::string& name : optimizer.parameter_names(group)) by_name.emplace(name, *next++);
  return by_name;
}

}  // namespace

// While a Scope lives, the values and gradients of an optimizer's parameters are this rank's shards of them. The
// optimizer therefore creates, updates and loads the state of the shards only.
class ZeroRedundancy::Scope : NoCopy {
 public:
  Scope(const ZeroRedundancy& zero, const optim::Optimizer& optimizer) {
    const int rank = zero.group_->rank(), ranks = zero.group_->size();
    for (const Tensor& parameter : optimizer.parameters()) {
      autograd::TensorState& state = *parameter.state();
      Array gradient = zero.gradients_ ? zero.gradients_->of(parameter) : Array();
      if (!zero.gradients_ && zero.has_gradients_ && state.has_grad) {
        TANDEM_CHECK(MemoryOrder(state.value).fits(state.grad), "ZeroRedundancy: a parameter of shape ",
                     state.value.shape(), " has strides ", state.value.strides(), ", but its gradient has ",
                     state.grad.strides(), ": convert the model before you construct ZeroRedundancy");
        gradient = shard(state.grad, rank, ranks);
      }
      flags_.emplace_back(state.has_grad, gradient.defined());
      arrays_.emplace_back(state.grad, gradient);
      arrays_.emplace_back(state.value, shard(state.value, rank, ranks));
    }
  }

 private:
  std::list<Temporarily<bool>> flags_;
  std::list<Temporarily<Array>> arrays_;
};

ZeroRedundancy::ZeroRedundancy(nn::Module& model, std::shared_ptr<ProcessGroup> group,
                               const ZeroRedundancyOptions& options)
    : group_(required(std::move(group), "ZeroRedundancy")), ddp_(make_ddp(model, group_, options)) {
  const auto parameters = model.parameters();
  for (const auto& indices : assign_buckets(parameters, reverse_registration_order(parameters), options.buckets)) {
    auto& message = gathered_.emplace_back();
    for (const std::size_t i : indices) message.push_back(parameters[i].tensor);
  }
  if (options.stage == 2) gradients_.emplace(*ddp_, options.buckets);
  else ddp_->set_communication_hook([this](const GradBucket& bucket, ProcessGroup&) { return reduce_scatter(bucket); });
}

std::shared_ptr<Work> ZeroRedundancy::reduce_scatter(const GradBucket& bucket) {
  if (bucket.index == 0) {
    TANDEM_CHECK(!std::exchange(has_gradients_, true),
                 "ZeroRedundancy: a second backward pass would average its gradients with means: accumulate with "
                 "ddp().no_sync(), and call step() or zero_grad() between two other passes");
    in_flight_.clear();
  }
  return reduce_scatter_shards(bucket.gradients, shards(bucket.gradients, group_->rank(), group_->size()), false,
                               *group_, bucket.name, in_flight_);
}

bool ZeroRedundancy::can_divide(const optim::Optimizer& optimizer) {
  return dynamic_cast<const optim::FusedUpdate*>(&optimizer) != nullptr;
}

void ZeroRedundancy::use(optim::Optimizer& optimizer) {
  TANDEM_CHECK(can_divide(optimizer), "ZeroRedundancy: ", optimizer.name(),
               " computes with whole parameters, so a rank can't update a shard of one by itself: use "
               "DistributedDataParallel, or another optimizer, such as Adam");
  TANDEM_CHECK(optimizer.state_dict().empty(), "ZeroRedundancy::use: this optimizer has already made a step or loaded ",
               "a state, so it has the state of whole parameters: call use() first, then load_state_dict() of ",
               "ZeroRedundancy");
  std::vector<Tensor> of_model, in_use;
  for (const auto& parameter : ddp_->model().parameters()) of_model.push_back(parameter.tensor);
  for (const optim::Optimizer* const other : optimizers_)
    for (const Tensor& parameter : other->parameters()) in_use.push_back(parameter);
  for (const auto& [name, tensor] : parameters_by_name(optimizer)) {
    TANDEM_CHECK(contains(of_model, tensor), "ZeroRedundancy::use: the model does not have the optimizer's parameter ",
                 name, ", so the ranks would not average its gradient: add it to the model");
    TANDEM_CHECK(!contains(in_use, tensor), "ZeroRedundancy::use: an optimizer in use already has the parameter ", name,
                 ": use each optimizer once, and give it parameters that no other optimizer has");
  }
  optimizers_.push_back(&optimizer);
}

void ZeroRedundancy::clear() {
  has_gradients_ = false;
  if (gradients_) gradients_->clear();
}

void ZeroRedundancy::zero_grad() {
  ddp_->model().zero_grad();
  clear();
}

void ZeroRedundancy::step() {
  step([this] {
    for (optim::Optimizer* const optimizer : optimizers_) optimizer->step();
  });
}

void ZeroRedundancy::step(const std::function<void()>& update) {
  TANDEM_CHECK(!optimizers_.empty(), "ZeroRedundancy::step: no optimizer is in use: call use(optimizer) first");
  TANDEM_CHECK(!ddp_->reducer().has_rounds(),
               "ZeroRedundancy::step does not work in join(), because a rank without data would have to update its "
               "shards too: give all ranks the same number of batches");
  TANDEM_CHECK(has_gradients(),
               "ZeroRedundancy::step: no backward pass outside of no_sync() has reached the model since the last step "
               "or zero_grad(), so this step would train nothing");
  {
    std::list<Scope> scopes;
    for (const optim::Optimizer* const optimizer : optimizers_) scopes.emplace_back(*this, *optimizer);
    update();
  }
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    std::vector<Array> values;
    for (const Tensor& parameter : gathered_[i]) values.push_back(parameter.value());
    all_gather_shards(values, *group_, "parameters " + std::to_string(i));
  }
  clear();
}

Array ZeroRedundancy::grad_norm(const std::vector<Tensor>& parameters, double norm_type) {
  const Array local = optim::grad_norm(parameters, norm_type);
  const char* const name = "norm of the gradients";
  const double norm = std::isinf(norm_type)
                          ? group_->max(local.item(), name)
                          : std::pow(group_->sum(std::pow(local.item(), norm_type), name), 1 / norm_type);
  return ops::scalar(norm, DType::f32, local.device());
}

Array ZeroRedundancy::clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  TANDEM_CHECK(max_norm >= 0, "clip_grad_norm_: max_norm must be at least 0, got ", max_norm);
  const Array norm = grad_norm(parameters, norm_type);
  const float factor = static_cast<float>(max_norm) / (static_cast<float>(norm.item()) + 1e-6f);
  if (factor >= 1) return norm;  // a NaN goes on, into the gradients
  for (const Tensor& parameter : parameters)
    if (Array gradient = parameter.grad(); gradient.defined()) ops::scale_(gradient, factor);
  return norm;
}

std::map<std::string, Tensor> ZeroRedundancy::divided(const optim::Optimizer& optimizer,
                                                      const std::vector<NamedArray>& state) {
  const auto by_name = parameters_by_name(optimizer);
  std::map<std::string, Tensor> found;
  for (const auto& [name, array] : state) {
    const auto slash = name.rfind('/');
    const auto parameter = by_name.find(name.substr(0, slash));
    const bool is_count = slash != std::string::npos && name.substr(slash) == "/step";
    if (!is_count && parameter != by_name.end()) found.emplace(name, parameter->second);
  }
  return found;
}

std::vector<NamedArray> ZeroRedundancy::state_dict(const optim::Optimizer& optimizer) const {
  std::vector<NamedArray> state = optimizer.state_dict();
  const auto parameters = divided(optimizer, state);
  for (auto& [name, array] : state) {
    const auto found = parameters.find(name);
    if (found != parameters.end()) array = gather_shards(array, found->second.value(), *group_, name);
  }
  return group_->rank() == 0 ? state : std::vector<NamedArray>();
}

void ZeroRedundancy::load_state_dict(optim::Optimizer& optimizer, std::vector<NamedArray> state) const {
  const auto parameters = divided(optimizer, state);
  for (auto& [name, array] : state) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) continue;
    const Array& value = found->second.value();
    const Shape mine = shard(value, group_->rank(), group_->size()).shape();
    TANDEM_CHECK(array.shape() == value.shape() || array.shape() == mine, optimizer.name(), ": ", name, " has shape ",
                 array.shape(), ", expected ", value.shape());
    if (array.shape() == value.shape())
      array = shard(MemoryOrder(value).arranged(array), group_->rank(), group_->size());
  }
  const Scope scope(*this, optimizer);
  optimizer.load_state_dict(state);
}

}  // namespace tandem::distributed

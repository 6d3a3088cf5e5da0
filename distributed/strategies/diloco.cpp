#include <tandem/core/ops.h>
#include <tandem/distributed/strategies/diloco.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem::distributed {
namespace {

bool has_floats(const NamedTensor& buffer) { return is_floating(buffer.tensor.dtype()); }

std::vector<NamedTensor> averaged_values(const nn::Module& model) {
  auto values = trained_parameters(model);
  std::ranges::copy_if(model.buffers(), std::back_inserter(values), has_floats);
  return values;
}

void load(const NamedArray& saved, Array into) {
  TANDEM_CHECK(saved.array.shape() == into.shape(), "DiLoCo: the saved array ", saved.name, " has the shape ",
               saved.array.shape(), ", but this model needs ", into.shape());
  into.copy_from(saved.array);
}

std::int64_t count_in(const Array& saved) {
  const double count = saved.item();
  TANDEM_CHECK(count >= 0 && count < 1e15, "DiLoCo: the saved number of inner steps is ", count,
               ", but must be at least 0");
  return static_cast<std::int64_t>(count);
}

// Returns zeros for all numbers of the trained parameters.
Tensor shared_values(const nn::Module& model) {
  std::int64_t elements = 0;
  const auto trained = trained_parameters(model);
  for (const auto& [name, tensor] : trained) elements += tensor.numel();
  return {Array::zeros({elements}, trained[0].tensor.dtype(), trained[0].tensor.device()), true};
}

}  // namespace

DiLoCo::DiLoCo(nn::Module& model, std::shared_ptr<ProcessGroup> group, const DiLoCoOptions& options)
    : model_(model),
      group_(required(std::move(group), "DiLoCo")),
      inner_steps_(options.inner_steps),
      trained_(trained_parameters(model).size()),
      values_(averaged_values(model)),
      message_(values_, *group_),
      shared_(shared_values(model)),
      outer_(std::vector<NamedTensor>{{"shared", shared_}}, options.outer) {
  TANDEM_CHECK(inner_steps_ >= 1, "DiLoCo: inner_steps is ", inner_steps_, ", but must be at least 1");
  broadcast_state(model_, *group_);
  restart();
}

bool DiLoCo::step() {
  TANDEM_CHECK(!own_.defined(),
               "DiLoCo::step: the model holds the means of all ranks: call use_own() before the inner step");
  if (++steps_ < inner_steps_) return false;
  gather();
  average();
  shared_.set_grad(ops::zip(functors::Sub{}, shared_.value(), shared_part()));
  outer_.step();
  shared_.set_grad({});  // frees its memory until the next outer step
  shared_part().copy_from(shared_.value());
  scatter();
  steps_ = 0;
  return true;
}

void DiLoCo::use_mean() {
  if (steps_ == 0 || own_.defined()) return;
  gather();
  own_ = message_.memory.clone();
  average();
  scatter();
}

void DiLoCo::use_own() {
  if (!own_.defined()) return;
  Array(message_.memory).copy_from(std::exchange(own_, {}));
  scatter();
}

void DiLoCo::restart() {
  gather();
  Array(shared_.value()).copy_from(shared_part());
  outer_.load_state_dict({});
  steps_ = 0;
  own_ = {};
}

void DiLoCo::gather() {
  for (std::size_t i = 0; i < values_.size(); ++i) Array(message_.parts[i]).copy_from(values_[i].tensor.value());
}

void DiLoCo::scatter() {
  for (std::size_t i = 0; i < values_.size(); ++i) Array(values_[i].tensor.value()).copy_from(message_.parts[i]);
}

void DiLoCo::average() {
  const auto now = trained_parameters(model_).size();
  TANDEM_CHECK(now == trained_, "DiLoCo: the model has ", now, " parameters that require a gradient, but had ",
               trained_, " at first, and averages only those: make DiLoCo after the last change");
  auto buffers = model_.buffers();
  std::erase_if(buffers, has_floats);
  std::vector<std::shared_ptr<Work>> works{group_->all_reduce(message_.memory, ReduceOp::mean, "weights of the ranks")};
  for (const auto& [name, tensor] : buffers) works.push_back(group_->broadcast(tensor.value(), 0, name));
  for (const auto& work : works) work->wait();
}

std::vector<NamedArray> DiLoCo::state_dict() const {
  auto state = outer_.state_dict();
  if (steps_ > 0) state.push_back({"shared", shared_.value()});
  state.push_back({"inner_steps", Array::from(std::vector{steps_})});
  return state;
}

void DiLoCo::load_state_dict(const std::vector<NamedArray>& state) {
  restart();
  std::vector<NamedArray> outer;
  for (const auto& entry : state) {
    if (entry.name == "inner_steps") steps_ = count_in(entry.array);
    else if (entry.name == "shared") load(entry, shared_.value());
    else if (outer_.momentum() > 0) outer.push_back(entry);  // a job may change from DiLoCo to local SGD
  }
  outer_.load_state_dict(outer);
}

std::vector<NamedArray> DiLoCo::rank_state_dict() const {
  if (!own_.defined()) return {};
  return {{"own", own_}};
}

void DiLoCo::load_rank_state_dict(const std::vector<NamedArray>& state) {
  own_ = {};
  for (const auto& entry : state) load(entry, own_ = ops::empty_like(message_.memory));
}

}  // namespace tandem::distributed

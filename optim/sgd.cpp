#include <tandem/core/profile.h>
#include <tandem/optim/arena.h>
#include <tandem/optim/sgd.h>

#include <cmath>
#include <set>

namespace tandem::optim {

namespace {

void check(const SgdOptions& o) {
  const auto is_valid = [](double v) { return std::isfinite(v) && v >= 0; };
  TANDEM_CHECK(is_valid(o.lr), "SGD: lr must be a number of at least 0, got ", o.lr);
  TANDEM_CHECK(is_valid(o.momentum), "SGD: momentum must be a number of at least 0, got ", o.momentum);
  TANDEM_CHECK(is_valid(o.weight_decay), "SGD: weight_decay must be a number of at least 0, got ",
               o.weight_decay);
  TANDEM_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
               "SGD: nesterov needs momentum above 0 and dampening 0");
}

constexpr const char* momentum_suffix = "/momentum";

}  // namespace

SGD::SGD(std::vector<NamedTensor> parameters, const SgdOptions& options)
    : SGD({SgdGroup{std::move(parameters), options}}) {}

SGD::SGD(std::vector<SgdGroup> groups) {
  std::set<const autograd::TensorState*> seen;
  for (auto& [parameters, options] : groups) {
    check(options);
    TANDEM_CHECK(!parameters.empty(), "SGD: a group without parameters");
    std::vector<Array> values;
    for (const auto& [name, tensor] : parameters) {
      TANDEM_CHECK(tensor.dtype() == DType::f32, "SGD: parameter ", name, " is ", tensor.dtype(),
                   ", must be f32");
      TANDEM_CHECK(seen.insert(tensor.state().get()).second, "SGD: parameter ", name, " is given twice");
      values.push_back(tensor.value());
    }
    const auto homes = arena_like(values);
    const auto momenta = options.momentum != 0 ? arena_like(values) : std::vector<Array>(values.size());
    Group group{options, values[0].device(), {}};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Array home = homes[i];
      home.copy_from(values[i]);
      parameters[i].tensor.set_value(home);
      group.entries.push_back({std::move(parameters[i]), momenta[i]});
    }
    groups_.push_back(std::move(group));
  }
}

void SGD::step() {
  const ProfileRange range("SGD::step");
  for (Group& group : groups_) {
    std::vector<SgdSegment> segments;
    segments.reserve(group.entries.size());
    std::vector<Array> gradients;  // keeps dense copies of odd layouts alive
    for (Entry& e : group.entries) {
      Array gradient = e.parameter.tensor.grad();
      if (!gradient.defined()) continue;
      gradients.push_back(gradient.contiguous());
      const Array& value = e.parameter.tensor.value();
      TANDEM_CHECK(value.device() == group.device, "SGD: parameter ", e.parameter.name, " was on ",
                   group.device, " when the optimizer was made, and is on ", value.device(),
                   " now: move the model before making the optimizer");
      segments.push_back({static_cast<float*>(value.raw()), static_cast<const float*>(gradients.back().raw()),
                          e.momentum.defined() ? static_cast<float*>(e.momentum.raw()) : nullptr,
                          value.numel(), !e.momentum_started});
      e.momentum_started = e.momentum.defined();
      value.storage()->written_by("SGD::step");
    }
    if (!segments.empty()) backend(group.device).sgd_step(segments, group.options);
  }
}

void SGD::zero_grad() {
  for (Group& group : groups_)
    for (Entry& e : group.entries) e.parameter.tensor.zero_grad();
}

std::vector<Tensor> SGD::parameters() const {
  std::vector<Tensor> all;
  for (const Group& group : groups_)
    for (const Entry& e : group.entries) all.push_back(e.parameter.tensor);
  return all;
}

void SGD::set_lr(double lr) {
  for (Group& group : groups_) group.options.lr = lr;
}

std::vector<NamedArray> SGD::state_dict() const {
  std::vector<NamedArray> state;
  for (const Group& group : groups_)
    for (const Entry& e : group.entries)
      if (e.momentum_started) state.push_back({e.parameter.name + momentum_suffix, e.momentum});
  return state;
}

void SGD::load_state_dict(const std::vector<NamedArray>& state) {
  const auto find = [&](const std::string& name) -> Entry* {
    for (Group& group : groups_)
      for (Entry& e : group.entries)
        if (e.parameter.name + momentum_suffix == name) return &e;
    return nullptr;
  };
  for (const auto& [name, array] : state) {
    const Entry* entry = find(name);
    TANDEM_CHECK(entry, "SGD: the saved state has ", name, ", but no such parameter is being optimised");
    TANDEM_CHECK(entry->momentum.defined(), "SGD: the saved state has ", name,
                 ", but momentum is 0 here; give the same --momentum");
    TANDEM_CHECK(entry->momentum.shape() == array.shape(), "SGD: ", name, " has shape ", array.shape(),
                 ", expected ", entry->momentum.shape());
  }
  for (Group& group : groups_)
    for (Entry& e : group.entries) e.momentum_started = false;
  for (const auto& [name, array] : state) {
    Entry* entry = find(name);
    entry->momentum.copy_from(array);
    entry->momentum_started = true;
  }
}

}  // namespace tandem::optim

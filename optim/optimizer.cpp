#include <tandem/core/array/memory_order.h>
#include <tandem/core/base/scope.h>
#include <tandem/optim/arena.h>
#include <tandem/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace tandem::optim {

Optimizer::Optimizer(const char* step_name, std::vector<std::vector<NamedTensor>> groups) : step_name_(step_name) {
  TANDEM_CHECK(!groups.empty(), name(), ": expected at least one group of parameters");
  std::set<const autograd::TensorState*> seen;
  for (const auto& parameters : groups) {
    TANDEM_CHECK(!parameters.empty(), name(),
                 ": a group has no parameters: a module lists only the members that were created with add()");
    for (const auto& [name, tensor] : parameters) {
      TANDEM_CHECK(
          tensor.defined() && tensor.is_leaf(), this->name(), ": parameter ", name,
          tensor.defined() ? " is the result of an operation, and only leaves can be optimised" : " is undefined");
      TANDEM_CHECK(tensor.dtype() == DType::f32, this->name(), ": parameter ", name, " is ", tensor.dtype(),
                   ", but must be f32");
      TANDEM_CHECK(seen.insert(tensor.state().get()).second, this->name(), ": parameter ", name, " is given twice");
    }
  }
  std::map<std::string, int> uses;
  std::set<const Storage*> moved;
  for (auto& parameters : groups) {
    for (NamedTensor& parameter : parameters) {
      if (const int use = ++uses[parameter.name]; use > 1) parameter.name += '#' + std::to_string(use);
    }
    std::vector<Array> values;
    for (const NamedTensor& parameter : parameters) values.push_back(parameter.tensor.value());
    auto homes = arena_like(values);
    Group group{values[0].device(), {}, {}, {}};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // Two parameters that were created from the same Array get separate memory.
      const bool is_first = moved.insert(values[i].storage().get()).second;
      if (is_first) {
        parameters[i].tensor.move_into(homes[i]);
      } else {
        homes[i].copy_from(values[i]);
        parameters[i].tensor.set_value(homes[i]);
      }
      group.entries.push_back({std::move(parameters[i]), {}, {}});
    }
    groups_.push_back(std::move(group));
  }
}

std::string Optimizer::name() const {
  const std::string_view step(step_name_);
  return std::string(step.substr(0, step.find(':')));
}

// Gives each entry the state arrays that the algorithm needs. Missing arrays are created, because a changed option may
// need another one.
void Optimizer::prepare(int index, const KeptState& kept) {
  Group& group = groups_[index];
  if (kept.names != group.kept) {
    std::vector<Array> values;
    for (Entry& e : group.entries) {
      values.push_back(e.parameter.tensor.value());
      e.state.clear();
    }
    for (const std::string& name : kept.names) {
      auto found = std::ranges::find(group.states, name, &StateArrays::name);
      if (found == group.states.end()) {
        found = group.states.insert(found, {name, arena_like(values)});
        for (Array& array : found->arrays) array.fill(initial_state(index));
        for (Entry& e : group.entries) e.is_started = false;
      }
      for (std::size_t i = 0; i < values.size(); ++i) group.entries[i].state.push_back(found->arrays[i]);
    }
    group.kept = kept.names;
  }
  if (kept.counts && !group.entries[0].count.defined()) {
    Array counts = Array::empty({static_cast<std::int64_t>(group.entries.size())}, DType::f32, group.device);
    counts.fill(0);
    for (std::size_t i = 0; i < group.entries.size(); ++i)
      group.entries[i].count = counts.select(0, static_cast<std::int64_t>(i));
  }
}

void Optimizer::reset(int index) {
  Group& group = groups_[index];
  for (StateArrays& part : group.states)
    for (Array& array : part.arrays) array.fill(initial_state(index));
  for (Entry& e : group.entries) {
    if (e.count.defined()) e.count.fill(0);
    e.is_started = false;
  }
}

void Optimizer::step() {
  const Scope scope(step_name_);
  bool has_gradient = false;
  for (int g = 0; g < group_count(); ++g) {
    Group& group = groups_[g];
    prepare(g, kept_state(g));
    std::vector<ParameterUpdate> updates;
    updates.reserve(group.entries.size());
    for (Entry& e : group.entries) {
      const Array gradient = e.parameter.tensor.grad();
      if (!gradient.defined()) continue;
      has_gradient = true;
      const Array& value = e.parameter.tensor.value();
      TANDEM_CHECK(value.device() == group.device, "parameter ", e.parameter.name, " was on ", group.device,
                   " when the optimizer was constructed, and is now on ", value.device(),
                   ": move the model before you construct the optimizer");
      const MemoryOrder order(value);
      const bool fits =
          order.fits(value) && std::ranges::all_of(e.state, [&](const Array& s) { return order.fits(s); });
      TANDEM_CHECK(value.dtype() == DType::f32 && fits, "parameter ", e.parameter.name,
                   " was dense f32 when the optimizer was constructed, and is now ", value.dtype(), " with strides ",
                   value.strides(), ": convert the model before you construct the optimizer");
      updates.emplace_back(value, order.arranged(gradient), e.state, e.count, !e.is_started, while_finite_);
      e.is_started = true;
      value.storage()->written_by(step_name_);
    }
    if (!updates.empty()) update(g, updates);
  }
  if (!has_gradient && !std::exchange(has_warned_, true))
    std::cerr << "warning: " << step_name_ << ": no parameter has a gradient, so this step changes nothing. Call "
              << "backward() before it, and zero_grad() before that, with the loss of the model whose parameters this "
              << "optimizer has" << std::endl;
}

void Optimizer::zero_grad() {
  for (Group& group : groups_)
    for (Entry& e : group.entries) e.parameter.tensor.zero_grad();
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& group : groups_)
    for (const Entry& e : group.entries) all.push_back(e.parameter.tensor);
  return all;
}

std::vector<std::string> Optimizer::parameter_names(int group) const {
  std::vector<std::string> names;
  for (const Entry& e : groups_[checked_group(group)].entries) names.push_back(e.parameter.name);
  return names;
}

std::size_t Optimizer::checked_group(int group) const {
  TANDEM_CHECK(group >= 0 && group < group_count(), name(), ": there is no parameter group ", group, ", it has ",
               group_count());
  return static_cast<std::size_t>(group);
}

void Optimizer::set_lr(double lr) {
  for (int group = 0; group < group_count(); ++group) set_lr(lr, group);
}

void check_option(const char* optimizer, const char* name, double value, double most) {
  TANDEM_CHECK(std::isfinite(value) && value >= 0, optimizer, ": ", name, " must be at least 0, got ", value);
  TANDEM_CHECK(value <= most, optimizer, ": ", name, " must be at most ", most, ", got ", value);
}

void check_fraction(const char* optimizer, const char* name, double value) {
  TANDEM_CHECK(value >= 0 && value < 1, optimizer, ": ", name, " must be at least 0 and below 1, got ", value);
}

}  // namespace tandem::optim

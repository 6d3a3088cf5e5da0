#include <tandem/nn/module.h>

#include <algorithm>
#include <map>
#include <set>

namespace tandem::nn {

namespace {

// Depth first over `module` and all below it; f(module, prefix) with the dotted prefix of its names.
template <class F>
void walk(const Module& module, const std::string& prefix, const F& f) {
  f(module, prefix);
  for (const auto& [name, child] : module.children()) walk(*child, prefix + name + '.', f);
}

}  // namespace

void Module::check_free(const std::string& name) const {
  TANDEM_CHECK(!name.empty() && name.find('.') == std::string::npos,
               "a name in a module must not be empty or hold a dot, got '", name, "'");
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  };
  TANDEM_CHECK(!taken(parameters_) && !taken(buffers_) && !taken(children_), "this module has a '", name,
               "' already");
}

void Module::add_child(std::string name, std::shared_ptr<Module> child) {
  check_free(name);
  child->range_name_ = Profile::lasting_name(name);
  children_.emplace_back(std::move(name), std::move(child));
}

Tensor Module::add_parameter(std::string name, Array value) {
  check_free(name);
  return parameters_.emplace_back(std::move(name), Tensor(std::move(value), true)).second;
}

Tensor Module::add_buffer(std::string name, Array value) {
  check_free(name);
  return buffers_.emplace_back(std::move(name), Tensor(std::move(value))).second;
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> all;
  std::set<const autograd::TensorState*> seen;
  walk(*this, "", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.parameters_)
      if (seen.insert(tensor.state().get()).second) all.push_back({prefix + name, tensor});
  });
  return all;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> all;
  walk(*this, "", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.buffers_) all.push_back({prefix + name, tensor});
  });
  return all;
}

std::vector<NamedArray> Module::state_dict() const {
  std::vector<NamedArray> all;
  walk(*this, "", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.parameters_) all.push_back({prefix + name, tensor.value()});
    for (const auto& [name, tensor] : module.buffers_) all.push_back({prefix + name, tensor.value()});
  });
  return all;
}

void Module::load_state_dict(const std::vector<NamedArray>& state) {
  std::map<std::string, const Array*> given;
  for (const auto& [name, array] : state) given[name] = &array;
  auto mine = state_dict();
  std::ostringstream problems;
  for (const auto& [name, array] : mine) {
    const auto found = given.find(name);
    if (found == given.end()) {
      problems << "\n  missing: " << name << ' ' << array.shape();
      continue;
    }
    if (found->second->shape() != array.shape())
      problems << "\n  " << name << ": shape " << found->second->shape() << ", this model has "
               << array.shape();
    given.erase(found);
  }
  for (const auto& [name, array] : given) problems << "\n  unexpected: " << name << ' ' << array->shape();
  TANDEM_CHECK(problems.str().empty(),
               "load_state_dict: this is the state of another model:", problems.str());

  for (const auto& [name, array] : state) given[name] = &array;
  for (auto& [name, array] : mine) array.copy_from(*given.at(name));
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::to(Device device) {
  for (auto& [name, tensor] : parameters()) tensor.move_to(device);
  for (auto& [name, tensor] : buffers()) tensor.move_to(device);
}

void Module::zero_grad() {
  for (auto& [name, tensor] : parameters()) tensor.zero_grad();
}

}  // namespace tandem::nn

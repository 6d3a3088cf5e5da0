#include <tandem/nn/module.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <set>

namespace tandem::nn {

namespace {

std::atomic<std::uint64_t> additions_so_far = 0;

// Calls f(module, prefix) for `module` and all modules below it, depth first. `prefix` precedes the names in a module,
// as in "layer1.0.".
template <class M, class F>
void walk(M& module, const std::string& prefix, const F& f) {
  f(module, prefix);
  for (const auto& [name, child] : module.children()) walk<M>(*child, prefix + name + '.', f);
}

// The tensors of one kind in `module` and all modules below it. Each is listed once, under its first name.
template <class List>
std::vector<NamedTensor> collect(const Module& module, List Module::*list) {
  std::vector<NamedTensor> all;
  std::set<const void*> seen;
  walk(module, "", [&](const Module& below, const std::string& prefix) {
    for (const auto& [name, tensor] : below.*list)
      if (seen.insert(tensor.state().get()).second) all.push_back({prefix + name, tensor});
  });
  return all;
}

}  // namespace

Tensor Module::forward(const Tensor&) {
  detail::fail(class_name(), " has no forward(const Tensor&): define it, or call the function that ", class_name(),
               " has instead, with that function's arguments");
}

void Module::check_free(const std::string& name) const {
  TANDEM_CHECK(!name.empty() && name.find('.') == std::string::npos,
               "a name in a module must not be empty or contain a dot, got '", name, "'");
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  };
  TANDEM_CHECK(!taken(parameters_) && !taken(buffers_) && !taken(children_), class_name(), " has a '", name,
               "' already");
}

std::uint64_t additions() { return additions_so_far; }

void Module::add_child(std::string name, std::shared_ptr<Module> child) {
  check_free(name);
  TANDEM_CHECK(child, "the module '", name, "' is null");
  ++additions_so_far;
  child->place_.range_name = lasting_name(name);
  child->place_.is_added = true;
  children_.emplace_back(std::move(name), std::move(child));
}

Tensor Module::add_parameter(std::string name, Array value) {
  check_free(name);
  ++additions_so_far;
  Tensor member = parameters_.emplace_back(std::move(name), Tensor(std::move(value), true)).second;
  member.set_member();
  return member;
}

Tensor Module::add_buffer(std::string name, Array value) {
  check_free(name);
  Tensor member = buffers_.emplace_back(std::move(name), Tensor(std::move(value))).second;
  member.set_member();
  return member;
}

void Module::tie(Tensor& parameter, const Tensor& other) {
  TANDEM_CHECK(parameter.defined() && other.defined(),
               "tie: ", parameter.defined() ? "the tensor to tie to" : "the parameter", " is undefined");
  if (parameter.same_as(other)) return;
  TANDEM_CHECK(other.is_leaf(), "tie: the tensor to tie to is the result of an operation, expected a parameter");
  TANDEM_CHECK(parameter.shape() == other.shape(), "tie: the parameter has shape ", parameter.shape(),
               ", but the other has ", other.shape());
  TANDEM_CHECK(parameter.dtype() == other.dtype() && parameter.device() == other.device(), "tie: the parameter is ",
               parameter.dtype(), " on ", parameter.device(), ", but the other is ", other.dtype(), " on ",
               other.device());
  ++additions_so_far;
  std::vector<std::pair<std::string, Tensor>*> places;
  std::set<const Module*> seen;
  walk(*this, "", [&](Module& module, const std::string&) {
    if (!seen.insert(&module).second) return;
    for (auto& entry : module.parameters_)
      if (entry.second.same_as(parameter)) places.push_back(&entry);
  });
  TANDEM_CHECK(!places.empty(), "tie: ", class_name(), " has no such parameter: pass the member of the layer itself");
  TANDEM_CHECK(places.size() == 1, "tie: the parameter ", places[0]->first, " is already tied to ", places[1]->first);
  places[0]->second = other;
  parameter.refer_to(other);
}

// --- The module and all modules below it ---

std::vector<NamedTensor> Module::parameters() const { return collect(*this, &Module::parameters_); }

std::vector<NamedTensor> Module::buffers() const { return collect(*this, &Module::buffers_); }

std::vector<NamedModule> Module::modules() {
  std::vector<NamedModule> all;
  std::set<const void*> seen;
  walk(*this, "", [&](Module& module, const std::string& prefix) {
    if (seen.insert(&module).second)
      all.push_back({prefix.empty() ? prefix : prefix.substr(0, prefix.size() - 1), module});
  });
  return all;
}

Module& Module::submodule(std::string_view path) {
  Module* at = this;
  for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const auto name = path.substr(begin, end - begin);
    const auto found = std::find_if(at->children_.begin(), at->children_.end(),
                                    [&](const auto& child) { return child.first == name; });
    if (found == at->children_.end()) {
      std::string names;
      for (const auto& [child, module] : at->children_) names += (names.empty() ? "" : ", ") + child;
      detail::fail("submodule: there is no '", path, "': ", at->class_name(), " has no '", name,
                   "', its children are: ", names.empty() ? "none" : names);
    }
    at = found->second.get();
    begin = end + 1;
  }
  return *at;
}

void Module::apply(const std::function<void(Module&)>& f) {
  TANDEM_CHECK(f, "apply: ", class_name(), " got an empty function");
  for (const auto& [name, child] : children_) child->apply(f);
  f(*this);
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : parameters()) count += tensor.numel();
  return count;
}

std::vector<NamedArray> Module::state_dict() const {
  std::vector<NamedArray> all;
  walk(*this, "", [&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.parameters_) all.push_back({prefix + name, tensor.value()});
    for (const auto& [name, tensor] : module.buffers_) all.push_back({prefix + name, tensor.value()});
  });
  return all;
}

void Module::train(bool on) {
  for (const auto& [name, child] : children_) child->train(on);
  training_ = on;
}

EvaluationMode::EvaluationMode(Module& model) {
  for (const auto& [name, module] : model.modules()) was_training_.emplace_back(&module, module.is_training());
  model.eval();
}
EvaluationMode::~EvaluationMode() {
  for (const auto& [module, was] : was_training_) module->training_ = was;
}

void Module::zero_grad() {
  for (auto& [name, tensor] : parameters()) tensor.zero_grad();
}

void Module::requires_grad_(bool on) {
  for (auto& [name, tensor] : parameters()) tensor.set_requires_grad(on);
}

void Module::to(Device device) {
  for (auto& [name, tensor] : parameters()) tensor.move_to(device);
  for (auto& [name, tensor] : buffers()) tensor.move_to(device);
}

void Module::to(DType dtype) {
  TANDEM_CHECK(is_floating(dtype), "a module's parameters can only have a floating dtype, not ", dtype);
  for (auto& [name, tensor] : parameters()) tensor.move_to(dtype);
  for (auto& [name, tensor] : buffers())
    if (is_floating(tensor.dtype())) tensor.move_to(dtype);
}

// --- Hooks ---

HookHandle Module::on_forward(std::function<void(Module&, const Tensor&)> hook) {
  TANDEM_CHECK(hook, "on_forward: ", class_name(), " got an empty function");
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  hooks_->push_back(std::move(hook));
  return HookHandle([weak = std::weak_ptr(hooks_), at = std::prev(hooks_->end())] {
    if (const auto hooks = weak.lock()) hooks->erase(at);
  });
}

void Module::run_hooks(const Tensor& output) {
  const Hooks hooks = *hooks_;  // copied, because a hook may remove hooks
  for (const auto& hook : hooks) hook(*this, output);
}

void Module::Call::warn_if_forgotten() const {
  const auto* const caller = static_cast<const Call*>(outer()->module());
  if (!caller || !grad_enabled()) return;
  const auto all = module_.parameters();
  if (std::none_of(all.begin(), all.end(), [](const auto& named) { return named.tensor.requires_grad(); })) return;
  module_.place_.is_added = true;
  const std::string name = caller->module_.class_name();
  std::cerr << "warning: " << name << " calls " << module_.describe()
            << ", which was not added to it. An optimizer for "
            << "the parameters of " << name << " does not train those of " << module_.class_name()
            << ". Register it with add() where the member is declared, or call it under NoGrad if it is frozen"
            << std::endl;
}

std::vector<const Module::Call*> Module::Call::calls() const {
  std::vector<const Call*> calls;
  for (const Scope* scope = module(); scope; scope = scope->outer() ? scope->outer()->module() : nullptr)
    calls.push_back(static_cast<const Call*>(scope));
  return calls;
}

std::pair<const Module::Call*, std::string> Module::Call::outermost() const {
  const auto all = calls();
  for (auto call = all.rbegin(); call != all.rend(); ++call)
    for (const auto& [name, module] : (*call)->module_.modules())
      if (&module == &module_) return {*call, name};
  return {this, ""};
}

Module::Call::ModuleName Module::Call::module_name() const { return {outermost().second, module_.class_name()}; }

const char* Module::Call::path() const {
  const Module* const first = &calls().back()->module_;
  if (module_.path_.first == first) return module_.path_.second;
  const auto [call, name] = outermost();
  // A module that is called directly, not through its parent, still has its name in the parent.
  const Module& root = call->module_;
  const bool has_name = std::string_view(root.place_.range_name) != "forward";
  const std::string path =
      name.empty() ? root.place_.range_name : (has_name ? std::string(root.place_.range_name) + '.' : "") + name;
  module_.path_ = {first, lasting_name(path)};
  return module_.path_.second;
}

}  // namespace tandem::nn

// Module: a part of a network. Owns parameters, buffers and child modules, each under a name.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>
#include <tandem/core/profile/profile.h>

#include <functional>
#include <list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::nn {

class Module;

struct NamedModule {
  std::string name;
  Module& module;
};

// What load_state_dict could not match, each name with its shape.
struct StateMismatch {
  std::vector<std::string> missing;     // of this module, not given
  std::vector<std::string> unexpected;  // given, not of this module
};

// Derive, add children and parameters where the members are declared, and define forward:
//
//   struct Net : nn::Module {
//     nn::Linear& hidden = add("hidden", nn::Linear(784, 100));
//     nn::Linear& output = add("output", nn::Linear(100, 10));
//     Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
//   };
//
// Names and their order equal PyTorch's, so state dicts interchange. A module can be moved, not copied.
//
// A module that takes something else than one Tensor defines forward with the arguments it wants, and operator() with
// the same, which wraps it in called() for the profile and the hooks:
//
//   struct Attention : nn::Module {
//     using nn::Module::forward;  // compilers warn of one that is hidden
//     Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value);
//     Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v) {
//       return called([&] { return forward(q, k, v); });
//     }
//   };
//
// One module may be added under several names (shared weights): its parameters appear once, under the first name, and
// in the state dict under each.
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  // Error, where a class does not define it.
  virtual Tensor forward(const Tensor& input);
  // forward(), as a range of the profile under the name that this module has in its parent, and then the hooks.
  Tensor operator()(const Tensor& input) {
    return called([&] { return forward(input); });
  }

  // Depth first, own parameters before children's, in order of registration. A shared parameter, buffer or module
  // appears once, under its first name. modules() begins with this one, whose name is empty; children() are those
  // directly below, and may have a shared one twice.
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  std::vector<NamedModule> modules();
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // The same under PyTorch's names.
  std::vector<NamedTensor> named_parameters() const { return parameters(); }
  std::vector<NamedTensor> named_buffers() const { return buffers(); }
  std::vector<NamedModule> named_modules() { return modules(); }
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& named_children() const { return children_; }
  // The module at a dotted path from here: "layer1.0". Error, with the names there are, when there is none.
  Module& submodule(std::string_view path);
  // Calls f with every module below, children first, and with this one last.
  void apply(const std::function<void(Module&)>& f);
  std::int64_t parameter_count() const;  // elements of all parameters

  // Parameters and buffers, in the order PyTorch's state_dict() gives. The arrays are the live ones, not copies.
  std::vector<NamedArray> state_dict() const;
  // Copies `state` in. An Error lists every name that is missing, unexpected or of another shape, and nothing is
  // changed. With strict = false only another shape is an error; what was missing or unexpected is returned.
  StateMismatch load_state_dict(const std::vector<NamedArray>& state, bool strict = true);

  // Training mode (the default) or evaluation mode, for this module and all below.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();
  // Whether parameters get gradients, for all of them. Freezing: before an optimizer or DistributedDataParallel is
  // made.
  void requires_grad_(bool on = true);

  // Brings parameters, buffers and gradients to `device`. Every handle stays what it was and sees them there. To be
  // called before an optimizer or DistributedDataParallel is made: they lay memory out on the device.
  void to(Device device);
  // The same for the dtype of all floating parameters and buffers.
  void to(DType dtype);

  // Runs `hook` after every call of this module (operator(), not a bare forward()) with what it returned.
  HookHandle on_forward(std::function<void(Module& module, const Tensor& output)> hook);
  bool has_forward_hooks() const { return hooks_ && !hooks_->empty(); }

  // The class, with the arguments worth knowing: "Linear(in=784, out=10)".
  virtual std::string describe() const { return class_name(); }
  std::string class_name() const;

 protected:
  // Registers `child` and returns it. The reference stays valid while this module (or what it was moved to) lives.
  template <class M>
  M& add(std::string name, M child) {
    auto owned = std::make_shared<M>(std::move(child));
    M& reference = *owned;
    add_child(std::move(name), std::move(owned));
    return reference;
  }
  void add_child(std::string name, std::shared_ptr<Module> child);
  Tensor add_parameter(std::string name, Array value);
  // A tensor of the state dict that is not trained: a running mean. Kept as a Tensor handle, without gradient.
  Tensor add_buffer(std::string name, Array value);

  // What operator() does around forward().
  template <class F>
  Tensor called(const F& forward) {
    const ProfileRange range(range_name_);
    if (!has_forward_hooks()) return forward();
    Tensor output = forward();
    run_hooks(output);
    return output;
  }

 private:
  using Hooks = std::list<std::function<void(Module&, const Tensor&)>>;

  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
  const char* range_name_ = "forward";
  std::shared_ptr<Hooks> hooks_;  // null: none yet

  void check_free(const std::string& name) const;
  void run_hooks(const Tensor& output);
};

// The tree of modules, a line each, as PyTorch prints it.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tandem::nn

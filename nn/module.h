// Module: a part of a network. A module owns parameters, buffers and child modules, each under a name.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/base/temporarily.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::nn {

class Module;

// True while this thread runs a part of a network for the second time: recompute() sets it (recompute.h). A module that
// changes its own state in the forward pass must then leave it unchanged.
inline thread_local bool recomputing = false;
inline bool is_recomputing() { return recomputing; }

// The number of parameters and children that were added to modules of this process so far, plus the number of times
// that one was tied. Code that keeps a list of a model's parameters uses it to see whether the list may be out of date.
std::uint64_t additions();

struct NamedModule {
  std::string name;
  Module& module;
};

// The names that load_state_dict() could not match. Each name stands with its shape.
struct StateMismatch {
  std::vector<std::string> missing;     // names that this module has and the state has not
  std::vector<std::string> unexpected;  // names that the state has and this module has not
};

// Derive, add children and parameters where the members are declared, and define forward:
//
//   struct Net : nn::Module {
//     nn::Linear& hidden = add("hidden", nn::Linear(784, 100));
//     nn::Linear& output = add("output", nn::Linear(100, 10));
//     Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
//   };
//
// Names and their order equal PyTorch's, so that state dicts can be exchanged. A module can be moved, but not copied.
//
// A module that takes other inputs than one Tensor defines forward() and operator() with the arguments that it wants.
// operator() calls forward() inside called(), which serves the profile and the hooks:
//
//   struct Attention : nn::Module {
//     using nn::Module::forward;  // compilers warn of a forward() that is hidden
//     Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value);
//     Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v) {
//       return called([&] { return forward(q, k, v); });
//     }
//   };
//
// One module may be added under several names, to share its weights, and tie() shares a single parameter. A shared
// parameter appears once among the parameters, under the first name. In the state dict it appears under each name.
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  // Error in a class that does not define it.
  virtual Tensor forward(const Tensor& input);
  // Runs forward() and then the hooks. The call is a Scope under the name that this module has in its parent.
  Tensor operator()(const Tensor& input) {
    return called([&] { return forward(input); });
  }

  // All parameters, buffers and modules of this module and below, depth first, in the order of registration. The
  // parameters of a module come before those of its children. A shared parameter, buffer or module appears once, under
  // its first name. modules() begins with this module, whose name is empty. children() are the modules directly below;
  // a shared module may be among them twice. In PyTorch these functions are called named_parameters(), named_buffers(),
  // named_modules() and named_children().
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  std::vector<NamedModule> modules();
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // The module at a dotted path below this module: "layer1.0". If no module has that path, an Error lists the names.
  Module& submodule(std::string_view path);
  // Calls f with every module below, children first, and with this module last.
  void apply(const std::function<void(Module&)>& f);
  std::int64_t parameter_count() const;  // the number of elements of all parameters

  // Parameters and buffers, in the order of PyTorch's state_dict(). The arrays are not copies: they are the module's
  // own, and show what it learns later. clone(model.state_dict()) keeps what it knows now, and renamed() gives parts.
  std::vector<NamedArray> state_dict() const;
  // Copies `state` into this module. Error when a name is missing or unexpected, or has another shape: the Error lists
  // all of them, and nothing is changed. Another Error: the names of a shared parameter are given different values.
  // With strict = false only another shape is an Error, and the missing and unexpected names are returned.
  //
  // When no name fits, names are compared without_wrappers() (core/io/arrays_file.h). A batch norm's
  // num_batches_tracked may be missing, as in files of before 2019, and becomes 0.
  StateMismatch load_state_dict(const std::vector<NamedArray>& state, bool strict = true);

  // Makes `parameter`, a member of this module or of one below, the same parameter as `other`: one value, one gradient,
  // two names. `other` has the same shape, dtype and device, and its value counts. For weights that are tied:
  //
  //   struct Model : nn::Module {
  //     nn::Embedding& embedding = add("embedding", nn::Embedding(1000, 64));
  //     nn::Linear& head = add("head", nn::Linear(64, 1000, {.bias = false}));
  //     Model() { tie(head.weight, embedding.weight); }
  //   };
  //
  // Call it before an optimizer or DistributedDataParallel is made. Error when `parameter` is not a parameter of this
  // module or is tied already.
  void tie(Tensor& parameter, const Tensor& other);

  // Training mode (the default) or evaluation mode, for this module and all below. A module that is to stay in one mode
  // overrides train().
  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();
  // Says for all parameters whether they get gradients. Call it before an optimizer or DistributedDataParallel is made.
  void requires_grad_(bool on = true);

  // Brings parameters, buffers and gradients to `device`. All handles of them stay valid and see them there. Call it
  // before an optimizer or DistributedDataParallel is made, because both lay out memory on the device.
  void to(Device device);
  // Gives all floating parameters and buffers another dtype.
  void to(DType dtype);

  // Runs `hook` after every call of this module, with the output. A call is operator(), not forward() alone.
  HookHandle on_forward(std::function<void(Module& module, const Tensor& output)> hook);
  bool has_forward_hooks() const { return hooks_ && !hooks_->empty(); }

  // The name of the class, with its important arguments: "Linear(in=784, out=10)".
  virtual std::string describe() const { return class_name(); }
  std::string class_name() const;

 protected:
  // Registers `child` and returns it. The reference stays valid while this module lives, or the module that it was
  // moved into.
  template <class M>
  M& add(std::string name, M child) {
    auto owned = std::make_shared<M>(std::move(child));
    M& reference = *owned;
    add_child(std::move(name), std::move(owned));
    return reference;
  }
  void add_child(std::string name, std::shared_ptr<Module> child);
  Tensor add_parameter(std::string name, Array value);
  // Adds a tensor of the state dict that is not trained, such as a running mean. It has no gradient.
  Tensor add_buffer(std::string name, Array value);

  // "Linear(in=784, out=10)": the name of the class, and `parts` in brackets. For describe().
  template <class... Parts>
  std::string describe_as(const Parts&... parts) const {
    std::ostringstream text;
    text << class_name() << '(';
    (text << ... << parts) << ')';
    return std::move(text).str();
  }

  // Runs `forward` as operator() does: inside a Scope, and with the hooks afterwards.
  template <class F>
  Tensor called(const F& forward) {
    Call call(*this);
    if (call.takes_notes()) call.show_as(call.path());
    if (!has_forward_hooks()) return forward();
    Tensor output = forward();
    run_hooks(output);
    return output;
  }

 private:
  friend class EvaluationMode;
  // A call of forward() that is under way. Errors name its module by the path from the module that was called first.
  class Call final : public Scope {
   public:
    explicit Call(Module& module) : Scope(Kind::module, module.range_name_), module_(module) {}
    ModuleName module_name() const override;
    const char* path() const;  // "blocks.2.mlp", for profiles; lives as long as the program

   private:
    std::vector<const Call*> calls() const;  // those under way, from this one outwards
    // The outermost call whose module has this one below it, and the name of this one there. Calls of other networks
    // may be under way too.
    std::pair<const Call*, std::string> outermost() const;
    Module& module_;
  };

  using Hooks = std::list<std::function<void(Module&, const Tensor&)>>;

  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
  const char* range_name_ = "forward";
  std::pair<const Module*, const char*>
      path_{};                    // what Call::path() last was, and the module of the outermost call then
  std::shared_ptr<Hooks> hooks_;  // null when no hook was added yet

  void check_free(const std::string& name) const;
  void run_hooks(const Tensor& output);
};

// While one lives, a model is in evaluation mode. Afterwards each of its modules is in the mode that it was in: a part
// that is frozen stays so.
class EvaluationMode : NoCopy {
 public:
  explicit EvaluationMode(Module& model);
  ~EvaluationMode();
  void keep() { was_training_.clear(); }  // the model stays in evaluation mode

 private:
  std::vector<std::pair<Module*, bool>> was_training_;
};

// The tree of modules, a line each, as PyTorch prints it.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tandem::nn

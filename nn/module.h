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

// True while this thread runs a part of a network for the second time. recompute() sets it (recompute.h). A module that
// changes its own state in the forward pass must then leave the state unchanged.
inline thread_local bool recomputing = false;
inline bool is_recomputing() { return recomputing; }

// The number of parameters and children added to modules in this process so far, plus the number of calls that tied a
// parameter. Code that caches a list of a model's parameters compares it to check whether the list may be out of date.
std::uint64_t additions();

struct NamedModule {
  std::string name;
  Module& module;
};

// The names that load_state_dict() could not match, each with its shape.
struct StateMismatch {
  std::vector<std::string> missing;     // names in this module that the state lacks
  std::vector<std::string> unexpected;  // names in the state that this module lacks
};

// To define a module, derive from it, add children and parameters where the members are declared, and define forward():
//
//   struct Net : nn::Module {
//     nn::Linear& hidden = add("hidden", nn::Linear(784, 100));
//     nn::Linear& output = add("output", nn::Linear(100, 10));
//     Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
//   };
//
// Names and their order match PyTorch's, so state dicts are interchangeable. A module can be moved, but not copied.
//
// A module whose input is not a single Tensor defines forward() and operator() with its own arguments. operator() calls
// forward() inside called(), which handles the profile and the hooks:
//
//   struct Attention : nn::Module {
//     using nn::Module::forward;  // compilers warn of a forward() that is hidden
//     Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value);
//     Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v) {
//       return called([&] { return forward(q, k, v); });
//     }
//   };
//
// A module may be added under several names, to share its weights. tie() shares a single parameter. A shared parameter
// appears once among the parameters, under its first name. In the state dict it appears under each name.
//
// Several threads may call one module at the same time in evaluation mode under NoGrad, as long as none of them changes
// its parameters, buffers, mode or hooks. Without NoGrad, the graphs of two threads lead to the same gradients: the
// threads may call the module, but two backward() at once are an Error. Everything else is for one thread at a time,
// because it changes the module: a call in training mode may write buffers and draw random numbers.
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  // The default throws an Error.
  virtual Tensor forward(const Tensor& input);
  // Runs forward() and then the hooks. The call is a Scope under the name that this module has in its parent.
  Tensor operator()(const Tensor& input) {
    return called([&] { return forward(input); });
  }

  // All parameters, buffers and modules of this module and of those below it, depth first, in registration order. A
  // module's own parameters come before its children's. A shared parameter, buffer or module appears once, under its
  // first name. modules() begins with this module, whose name is empty. children() returns the modules directly below;
  // a shared module may occur twice. PyTorch calls these functions named_parameters(), named_buffers(), named_modules()
  // and named_children().
  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> buffers() const;
  std::vector<NamedModule> modules();
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  // Returns the module at a dotted path below this module, such as "layer1.0". If no module has that path, throws an
  // Error that lists the names.
  Module& submodule(std::string_view path);
  // Calls f with every module below this one, children first, and finally with this module.
  void apply(const std::function<void(Module&)>& f);
  std::int64_t parameter_count() const;  // the number of elements of all parameters

  // Parameters and buffers, in the order of PyTorch's state_dict(). The arrays are the module's own, not copies, so
  // they change in later training. clone(model.state_dict()) keeps the current values, and renamed() selects parts.
  std::vector<NamedArray> state_dict() const;
  // Copies `state` into this module. If a name is missing or unexpected, or has another shape, throws an Error that
  // lists all of them, and changes nothing. Also throws an Error if the names of a shared parameter have different
  // values. With strict = false, only another shape is an Error, and the function returns the missing and unexpected
  // names.
  //
  // If no name matches, names are compared without_wrappers() (core/io/arrays_file.h). A batch norm's
  // num_batches_tracked may be missing, as in files from before 2019, and becomes 0.
  StateMismatch load_state_dict(const std::vector<NamedArray>& state, bool strict = true);

  // Makes `parameter`, a member of this module or of one below it, the same parameter as `other`: one value, one
  // gradient, two names. `other` has the same shape, dtype and device, and its value is kept. For tied weights:
  //
  //   struct Model : nn::Module {
  //     nn::Embedding& embedding = add("embedding", nn::Embedding(1000, 64));
  //     nn::Linear& head = add("head", nn::Linear(64, 1000, {.bias = false}));
  //     Model() { tie(head.weight, embedding.weight); }
  //   };
  //
  // Call it before you construct an optimizer or DistributedDataParallel. Throws an Error if `parameter` is not a
  // parameter of this module or is already tied.
  void tie(Tensor& parameter, const Tensor& other);

  // Sets training mode (the default) or evaluation mode for this module and all modules below it. A module that must
  // stay in one mode overrides train().
  virtual void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();
  // Sets whether the parameters require gradients. Call it before you construct an optimizer or
  // DistributedDataParallel.
  void requires_grad_(bool on = true);

  // Moves parameters, buffers and gradients to `device`. All handles stay valid and see the change. Call it before you
  // construct an optimizer or DistributedDataParallel, because both allocate memory on the device.
  void to(Device device);
  // Converts all floating parameters and buffers to another dtype.
  void to(DType dtype);

  // Runs `hook` with the output after every call of this module. A call is operator(), not forward() alone.
  HookHandle on_forward(std::function<void(Module& module, const Tensor& output)> hook);
  bool has_forward_hooks() const { return hooks_ && !hooks_->empty(); }

  // The class name with its important arguments, such as "Linear(in=784, out=10)".
  virtual std::string describe() const { return class_name(); }
  std::string class_name() const;

 protected:
  // Registers `child` and returns it. The reference is valid as long as this module, or the module into which it was
  // moved, lives.
  template <class M>
  M& add(std::string name, M child) {
    auto owned = std::make_shared<M>(std::move(child));
    M& reference = *owned;
    add_child(std::move(name), std::move(owned));
    return reference;
  }
  void add_child(std::string name, std::shared_ptr<Module> child);
  Tensor add_parameter(std::string name, Array value);
  // Adds a tensor to the state dict that is not trained, such as a running mean. It has no gradient.
  Tensor add_buffer(std::string name, Array value);

  // Returns the class name with `parts` in brackets, such as "Linear(in=784, out=10)". For describe().
  template <class... Parts>
  std::string describe_as(const Parts&... parts) const {
    std::ostringstream text;
    text << class_name() << '(';
    (text << ... << parts) << ')';
    return std::move(text).str();
  }

  // Runs `forward` as operator() does: inside a Scope, followed by the hooks.
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
  // A running call of forward(). Errors name its module by the path from the module that was called first.
  class Call final : public Scope {
   public:
    explicit Call(Module& module) : Scope(Kind::module, module.place_.range_name), module_(module) {
      if (!module.place_.is_added && outer()) warn_if_forgotten();
    }
    ModuleName module_name() const override;
    const char* path() const;  // "blocks.2.mlp", for profiles; lives as long as the program

   private:
    // Warns, once per module, if a module calls another one that has parameters but was not added to it.
    void warn_if_forgotten() const;
    std::vector<const Call*> calls() const;  // the running calls, from this one outwards
    // The outermost call whose module contains this one, and the name of this module there. Calls of other networks may
    // be running too.
    std::pair<const Call*, std::string> outermost() const;
    Module& module_;
  };

  using Hooks = std::list<std::function<void(Module&, const Tensor&)>>;

  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
  // Whether and where this module is in another module. A module that is assigned to it does not change that.
  struct Place {
    bool is_added = false;
    const char* range_name = "forward";
    Place() = default;
    Place(Place&&) = default;
    Place& operator=(Place&&) noexcept { return *this; }
  } place_;
  std::pair<const Module*, const char*>
      path_{};                    // the last result of Call::path(), and the module of its outermost call
  std::shared_ptr<Hooks> hooks_;  // null if no hook has been added

  void check_free(const std::string& name) const;
  void run_hooks(const Tensor& output);
};

// While an EvaluationMode lives, a model is in evaluation mode. Afterwards each of its modules returns to its earlier
// mode, so a frozen part stays frozen.
class EvaluationMode : NoCopy {
 public:
  [[nodiscard]] explicit EvaluationMode(Module& model);
  ~EvaluationMode();
  void keep() { was_training_.clear(); }  // the model stays in evaluation mode

 private:
  std::vector<std::pair<Module*, bool>> was_training_;
};

// Prints the tree of modules, one per line, like PyTorch.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tandem::nn

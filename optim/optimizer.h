// Optimizer: moves parameters along their gradients. The base class manages the groups of parameters, their memory and
// their state. Each algorithm is a separate class. It has the options, declares the state that the algorithm keeps for
// each parameter, and computes an update. Algorithms that process one number at a time make a rule of
// core/formulas/update_rules.h from their options and derive from FusedOptimizer (optim/fused_optimizer.h). Others
// derive from OptimizerOf and compute with whole arrays.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>

#include <array>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::optim {

// Parameters that share the same options.
template <class Options>
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  Options options;
};

// An option under its PyTorch name: a number, a switch, or a pair such as Adam's betas.
using OptionValue = std::variant<double, bool, std::array<double, 2>>;
using NamedOption = std::pair<std::string, OptionValue>;

// The state that an algorithm keeps for each parameter between its updates.
struct KeptState {
  std::vector<std::string> names;  // PyTorch's names, such as "exp_avg", of arrays in the parameter's shape
  bool counts = false;             // whether the number of updates is also kept
};

// One parameter to update. All arrays are f32, row-major, and on the device of the parameter's group.
struct ParameterUpdate {
  Array parameter;         // the update changes it in place
  Array gradient;          // the update only reads it
  std::span<Array> state;  // in the order of KeptState::names; the update changes them in place
  Array count;             // (): the number of previous updates, which the update increments; undefined if counts is
                           // false
  bool is_first;           // no update has written the state yet; it holds initial_state()
  Array while_finite;      // (): if it is infinite or NaN, nothing is updated; undefined: always update
};

// The constructor moves the parameters (f32) of a group into one block of memory. Each kind of state of the group is
// also one block. All parameters of a group must be on one device, and stay there. Only one thread at a time may use an
// optimizer, and meanwhile no other thread may use its parameters.
//
// A step on a GPU may be recorded and replayed (optim/graphed_step.h), because everything that an update depends on is
// in the GPU's memory, including the number of updates and the options. Options may change between replays. The
// exceptions are options that change which state the algorithm keeps: raising SGD's momentum from 0, `centered` and
// `amsgrad`.
class Optimizer : NoCopy {
 public:
  virtual ~Optimizer() = default;
  // Makes one update from the gradients. A parameter without a gradient stays as it is, and so does its state.
  // Gradients are only read.
  void step();
  void zero_grad();
  // From now on, step() changes nothing while this number, () f32 on the parameters' device, is infinite or NaN. A GPU
  // checks the number itself, so the host does not wait for it. Optimizers that compute with whole arrays ignore it.
  void step_while_finite(const Array& number) { while_finite_ = number; }
  // Handles of the parameters of all groups.
  std::vector<Tensor> parameters() const;
  // The names of a group's parameters. If two have the same name, as in two modules, the second becomes "weight#2".
  std::vector<std::string> parameter_names(int group) const;
  int group_count() const { return static_cast<int>(groups_.size()); }

  // The learning rate of the given parameter group for the next step.
  virtual double lr(int group = 0) const = 0;
  virtual void set_lr(double lr, int group) = 0;
  void set_lr(double lr);  // of every group
  // The number that a schedule cycles besides the learning rate: the momentum, or Adam's first beta. Throws an Error if
  // the algorithm has neither.
  virtual double momentum(int group = 0) const = 0;
  virtual void set_momentum(double momentum, int group) = 0;
  // Returns or sets the options of a group. Throws an Error for an unknown name, or a value of the wrong type.
  virtual std::vector<NamedOption> group_options(int group) const = 0;
  virtual void set_group_options(int group, const std::vector<NamedOption>& options) = 0;

  // The state on which the next step depends, besides parameters and options. In "layer1.0.weight/exp_avg", the part
  // after the slash is PyTorch's name of the state; SGD's state is "momentum". "layer1.0.weight/step" is the number of
  // updates. A parameter has no state before its first update.
  std::vector<NamedArray> state_dict() const;
  // Throws an Error and changes nothing if an entry matches no parameter, or if a part of a parameter's state is
  // missing. A parameter without entries in `state` is reset to its state before the first update.
  void load_state_dict(const std::vector<NamedArray>& state);

  // PyTorch's name of the class, such as "SGD" or "Adam".
  std::string name() const;

 protected:
  // `step_name`, such as "SGD::step", is for profiles and errors. Throws an Error if a parameter is not f32 or is given
  // twice, or if a group has no parameters.
  Optimizer(const char* step_name, std::vector<std::vector<NamedTensor>> groups);

  virtual KeptState kept_state(int group) const = 0;
  // Makes one update of each of these parameters of `group`.
  virtual void update(int group, std::span<ParameterUpdate> updates) = 0;
  // Called when the options of a group have changed.
  virtual void options_changed(int /*group*/) {}
  // The value with which the optimizer's state for parameters of this group begins.
  virtual double initial_state(int /*group*/) const { return 0; }
  std::size_t checked_group(int group) const;  // returns `group`; throws an Error if there is no such group

 private:
  struct Entry {
    NamedTensor parameter;
    std::vector<Array> state;  // in the order of the group's `kept`
    Array count;               // () f32: the number of updates; undefined if the algorithm does not count
    bool is_started = false;
  };
  struct StateArrays {
    std::string name;
    std::vector<Array> arrays;  // one per entry
  };
  struct Group {
    Device device;
    std::vector<Entry> entries;
    std::vector<StateArrays> states;  // each is created when it is first needed
    std::vector<std::string> kept;    // the names of the states that the algorithm needs with its current options
  };

  void prepare(int group, const KeptState& kept);
  void reset(int group);

  const char* const step_name_;
  bool has_warned_ = false;  // that no parameter has a gradient
  std::vector<Group> groups_;
  Array while_finite_;
};

// The part of an optimizer that is the same for all kinds of options. Options has three members: lr; check(name), which
// throws if a value is out of range; and visit(self, f), which calls f("lr", self.lr) and so on for each option.
template <class Options>
class OptimizerOf : public Optimizer {
 public:
  const Options& options(int group = 0) const { return options_[checked_group(group)]; }
  using Optimizer::set_lr;
  double lr(int group = 0) const final { return options(group).lr; }
  void set_lr(double lr, int group) final {
    change(group, [lr](Options& options) { options.lr = lr; });
  }

  double momentum(int group = 0) const final {
    if constexpr (has_momentum) return options(group).momentum;
    else if constexpr (has_betas) return options(group).betas[0];
    else detail::fail(name(), " has no momentum");
  }
  void set_momentum(double momentum, int group) final {
    change(group, [&](Options& options) {
      if constexpr (has_momentum) options.momentum = momentum;
      else if constexpr (has_betas) options.betas[0] = momentum;
      else detail::fail(name(), " has no momentum to set to ", momentum);
    });
  }

  std::vector<NamedOption> group_options(int group) const final {
    std::vector<NamedOption> named;
    Options::visit(options(group), [&](const char* key, const auto& value) { named.emplace_back(key, value); });
    return named;
  }
  void set_group_options(int group, const std::vector<NamedOption>& named) final {
    change(group, [&](Options& changed) {
      for (const auto& [key, value] : named) {
        bool is_known = false;
        Options::visit(changed, [&, &wanted = key, &stored = value](const char* known, auto& option) {
          if (wanted != known) return;
          const auto* given = std::get_if<std::decay_t<decltype(option)>>(&stored);
          TANDEM_CHECK(given, name(), ": the option ", wanted, " has a value of the wrong type");
          option = *given;
          is_known = true;
        });
        TANDEM_CHECK(is_known, name(), " has no option ", key);
      }
    });
  }

 protected:
  OptimizerOf(const char* step_name, const char* name, const std::vector<ParameterGroup<Options>>& groups)
      : Optimizer(step_name, parameters_of(groups, name)) {
    for (const auto& group : groups) options_.push_back(group.options);
  }

 private:
  static constexpr bool has_momentum = requires(Options o) { o.momentum; };
  static constexpr bool has_betas = requires(Options o) { o.betas; };

  // If check() rejects the options, the group keeps its old ones.
  template <class F>
  void change(int group, F f) {
    Options changed = options(group);
    f(changed);
    changed.check(name().c_str());
    options_[checked_group(group)] = changed;
    options_changed(group);
  }

  static std::vector<std::vector<NamedTensor>> parameters_of(const std::vector<ParameterGroup<Options>>& groups,
                                                             const char* name) {
    std::vector<std::vector<NamedTensor>> parameters;
    for (const auto& group : groups) {
      group.options.check(name);
      parameters.push_back(group.parameters);
    }
    return parameters;
  }

  std::vector<Options> options_;
};

// Checks of options. They throw an Error unless 0 <= value <= most or, in check_fraction(), 0 <= value < 1.
void check_option(const char* optimizer, const char* name, double value,
                  double most = std::numeric_limits<double>::infinity());
void check_fraction(const char* optimizer, const char* name, double value);

}  // namespace tandem::optim

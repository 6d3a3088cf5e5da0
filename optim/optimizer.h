// Optimizer: moves parameters along their gradients. The base class keeps the books (groups of parameters, memory,
// state); a class of its own for each algorithm has the options and says which rule of core/formulas/update_rules.h
// they make.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/array/named_array.h>
#include <tandem/core/formulas/update_rules.h>

#include <array>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::optim {

// Parameters that are updated with the same options.
template <class Options>
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  Options options;
};

// An option by its name in PyTorch: a number, a switch, or a pair such as Adam's betas.
using OptionValue = std::variant<double, bool, std::array<double, 2>>;
using NamedOption = std::pair<std::string, OptionValue>;

// The parameters (f32) of a group move into one block of memory, and so does each kind of their state. All of a group
// are on one device, and stay there from now on. On a GPU all that an update depends on lies there, so that a step may
// be recorded and repeated (core/array/graphed_step.h): how many there were before, and the options, which may change
// between repetitions (though not in what state the algorithm keeps: SGD's momentum from 0, centered, amsgrad).
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update from the gradients that are there; a parameter without gradient stays as it is, and so does its state.
  // Gradients are only read.
  void step();
  void zero_grad();
  // What it moves: handles of the live parameters, of all groups.
  std::vector<Tensor> parameters() const;
  std::vector<std::string> parameter_names(int group) const;
  int group_count() const { return static_cast<int>(groups_.size()); }

  // The learning rate of the next step, of the given parameter group.
  virtual double lr(int group = 0) const = 0;
  virtual void set_lr(double lr, int group) = 0;
  void set_lr(double lr);  // of every group
  // What a schedule cycles beside it: momentum, or Adam's first beta. Error where the algorithm has neither.
  virtual double momentum(int group = 0) const = 0;
  virtual void set_momentum(double momentum, int group) = 0;
  // All options of a group, and their change; error for a name or a value that isn't one.
  virtual std::vector<NamedOption> group_options(int group) const = 0;
  virtual void set_group_options(int group, const std::vector<NamedOption>& options) = 0;

  // What the next step depends on besides parameters and options: "layer1.0.weight/exp_avg", with PyTorch's name behind
  // the slash (SGD's is "momentum"); "layer1.0.weight/step" is the number of updates. Nothing of a parameter before its
  // first update.
  std::vector<NamedArray> state_dict() const;
  // Error when an entry fits no parameter, or one is missing; nothing is changed then. Nothing for a parameter: as
  // before its first update.
  void load_state_dict(const std::vector<NamedArray>& state);

  // "SGD", "Adam": PyTorch's name of the class.
  std::string name() const;

 protected:
  // step_name: "SGD::step", which profiles and errors show. Arrays of parameters of another dtype than f32, without
  // parameters, or with one twice, are errors.
  Optimizer(const char* step_name, std::vector<std::vector<NamedTensor>> groups);

  virtual UpdateRule rule(int group) const = 0;
  // To be called when the options of a group have changed.
  void options_changed(int group);
  // What the numbers of the state are before the first update.
  virtual double initial_state(int) const { return 0; }
  std::size_t checked_group(int group) const;  // `group`; Error when there is no such one

 private:
  struct Entry {
    NamedTensor parameter;
    Array count;  // () f32; undefined where the rule doesn't count
    bool is_started = false;
  };
  struct StateArrays {
    std::string name;
    std::vector<Array> arrays;  // one for each entry
  };
  struct Group {
    Device device;
    std::vector<Entry> entries;
    std::vector<StateArrays> states;  // made when they are first needed
    Array rule;                       // where a GPU reads it; made by the first step that is not recorded
  };
  // What a rule keeps.
  struct Needs {
    std::span<const char* const> state_names;
    bool counts = false;
    explicit Needs(const UpdateRule& rule);
  };

  std::vector<StateArrays*> prepare(int group, const Needs& needs);
  void reset(int group);

  const char* const step_name_;
  std::vector<Group> groups_;
};

// The part of an optimizer that is the same for all kinds of options. Options has lr, check(name), which throws for
// values out of range, and visit(self, f), which calls f("lr", self.lr) for each option.
template <class Options>
class OptimizerOf : public Optimizer {
 public:
  const Options& options(int group = 0) const { return options_[checked_group(group)]; }
  using Optimizer::set_lr;
  double lr(int group = 0) const final { return options(group).lr; }
  void set_lr(double lr, int group) final {
    options_[checked_group(group)].lr = lr;
    options_changed(group);
  }

  double momentum(int group = 0) const final {
    if constexpr (has_momentum) return options(group).momentum;
    else if constexpr (has_betas) return options(group).betas[0];
    else detail::fail(name(), " has no momentum");
  }
  void set_momentum(double momentum, int group) final {
    if constexpr (has_momentum) options_[checked_group(group)].momentum = momentum;
    else if constexpr (has_betas) options_[checked_group(group)].betas[0] = momentum;
    else detail::fail(name(), " has no momentum that could be set to ", momentum);
    options_changed(group);
  }

  std::vector<NamedOption> group_options(int group) const final {
    std::vector<NamedOption> named;
    Options::visit(options(group), [&](const char* key, const auto& value) { named.emplace_back(key, value); });
    return named;
  }
  void set_group_options(int group, const std::vector<NamedOption>& named) final {
    Options changed = options(group);
    for (const auto& [key, value] : named) {
      bool is_known = false;
      Options::visit(changed, [&, &key = key, &value = value](const char* known, auto& option) {
        if (key != known) return;
        const auto* given = std::get_if<std::decay_t<decltype(option)>>(&value);
        TANDEM_CHECK(given, name(), ": the option ", key, " has a value of another type");
        option = *given;
        is_known = true;
      });
      TANDEM_CHECK(is_known, name(), " has no option ", key);
    }
    changed.check(name().c_str());
    options_[checked_group(group)] = changed;
    options_changed(group);
  }

 protected:
  OptimizerOf(const char* step_name, const char* name, const std::vector<ParameterGroup<Options>>& groups)
      : Optimizer(step_name, parameters_of(groups, name)) {
    for (const auto& group : groups) options_.push_back(group.options);
  }

 private:
  static constexpr bool has_momentum = requires(Options o) { o.momentum; };
  static constexpr bool has_betas = requires(Options o) { o.betas; };

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

// For the checks of options.
void check_option(const char* optimizer, const char* name, double value);    // a number of at least 0
void check_fraction(const char* optimizer, const char* name, double value);  // and below 1

}  // namespace tandem::optim

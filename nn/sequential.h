#pragma once

#include <tandem/nn/containers.h>

#include <concepts>
#include <initializer_list>

namespace tandem::nn {

// Modules and plain functions that run one after the other. Their names are "0", "1", ..., as in PyTorch.
//
//   nn::Sequential{nn::Conv2d(1, 16, 5, {.padding = 2}), nn::BatchNorm2d(16), nn::ReLU(),
//                  nn::MaxPool2d(2)}
//
// Write braces: with braces, C++ constructs the modules from left to right. This fixes the order in which the modules
// draw their initial weights. A single Sequential in the braces is a module like any other. Clang 19 instead treats it
// as a copy (defect report CWG 2137); add it with push_back() there. A BatchNorm2d, a ReLU after it, and 2 x 2 max
// pooling after the ReLU run as one operation. If any other max pooling follows a ReLU, with neither dilation nor
// ceil_mode, the pooling runs before the ReLU. Neither changes the result. Modules with forward hooks, and classes
// derived from ReLU or MaxPool2d, run one by one.
class Sequential : public Container {
 public:
  // One module or function in the list.
  class Step {
   public:
    template <std::derived_from<Module> M>
    Step(M given) : module(std::make_shared<M>(std::move(given))) {}  // NOLINT: lists convert
    template <std::derived_from<Module> M>
    Step(std::shared_ptr<M> given) : module(std::move(given)) {}  // NOLINT: shared with the caller
    template <class F>
    requires(!std::derived_from<F, Module> && std::is_invocable_r_v<Tensor, F, const Tensor&>)
        Step(F function);  // NOLINT: lists convert

    std::shared_ptr<Module> module;
  };

  Sequential() = default;
  Sequential(std::initializer_list<Step> steps);
  Tensor forward(const Tensor& x) override { return run(x, 0, size()); }
  // Runs only the modules in [begin, end).
  Tensor run(const Tensor& x, std::int64_t begin, std::int64_t end);

  // Appends a module or function.
  void push_back(Step step) { push_child(std::move(step.module)); }
};

namespace detail {

template <class F>
class FunctionModule : public Module {
 public:
  explicit FunctionModule(F function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string describe() const override { return "function"; }

 private:
  F function_;
};

}  // namespace detail

template <class F>
requires(!std::derived_from<F, Module> &&
         std::is_invocable_r_v<Tensor, F, const Tensor&>) Sequential::Step::Step(F function)
    : module(std::make_shared<detail::FunctionModule<F>>(std::move(function))) {}

}  // namespace tandem::nn

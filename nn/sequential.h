#pragma once

#include <tandem/nn/module.h>

#include <concepts>
#include <initializer_list>

namespace tandem::nn {

// Modules and plain functions, one after the other, named "0", "1", ... as in PyTorch.
//
//   nn::Sequential{nn::Conv2d(1, 16, {.kernel_size = 5, .padding = 2}), nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2)}
//
// Write braces: C++ then constructs the modules from left to right, which fixes the order in which they draw their initial
// weights. Where BatchNorm2d is followed by ReLU, and that by 2 x 2 max pooling, they run as one operation.
class Sequential : public Module {
 public:
  // One module or function of the list.
  class Step {
   public:
    template <std::derived_from<Module> M>
    Step(M module) : module(std::make_shared<M>(std::move(module))) {}  // NOLINT: lists convert
    template <class F>
    requires(!std::derived_from<F, Module> && std::is_invocable_r_v<Tensor, F, const Tensor&>)
        Step(F function);  // NOLINT: lists convert

    std::shared_ptr<Module> module;
  };

  Sequential(std::initializer_list<Step> steps);
  Tensor forward(const Tensor& x) override;
};

namespace detail {

template <class F>
class FunctionModule : public Module {
 public:
  explicit FunctionModule(F function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  F function_;
};

}  // namespace detail

template <class F>
requires(!std::derived_from<F, Module> &&
         std::is_invocable_r_v<Tensor, F, const Tensor&>) Sequential::Step::Step(F function)
    : module(std::make_shared<detail::FunctionModule<F>>(std::move(function))) {}

}  // namespace tandem::nn

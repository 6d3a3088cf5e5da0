// With recompute, a part of the network stores only its inputs and runs again in the backward pass. PyTorch calls this
// activation checkpointing (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174).
#pragma once

#include <tandem/nn/sequential.h>

#include <functional>
#include <utility>

namespace tandem::nn {

namespace detail {
Tensor recompute(std::function<Tensor(std::span<const Tensor>)> function, std::vector<Tensor> inputs);
}

// Computes function(inputs...) and stores only the inputs. The backward pass runs the function again to get the values
// that it needs:
//
//   Tensor x2 = nn::recompute([&](const Tensor& x) { return block(x); }, x1);
//   Tensor x3 = nn::recompute(attention_block, x2, mask);
//
// The second run draws the same random numbers from default_generator() and has the same Autocast as the first. All
// gradients, including those of parameters in the function, are the same as without recompute. The on_grad_ready hooks
// run once, and as early as without recompute. A recomputed part may contain further recomputed parts. A Module is
// taken by reference. Everything that the function captures must live until the backward pass.
//
// The function must compute the same in both runs. The backward pass throws an Error if the second run used other
// parameters, or if an input or a parameter was changed in place between the runs. A module that changes its own state
// in the forward pass should call is_recomputing(), so as to change the state only once. BatchNorm2d does so before it
// updates its running statistics.
template <class F, class... Inputs>
Tensor recompute(F&& function, const Inputs&... inputs) {
  static_assert((std::is_convertible_v<Inputs, Tensor> && ...), "recompute: every input must be a Tensor");
  static_assert(sizeof...(Inputs) > 0, "recompute: pass the function's inputs");
  const auto call = []<std::size_t... i>(auto& f, std::span<const Tensor> x, std::index_sequence<i...>) {
    return f(x[i]...);
  };
  using All = std::index_sequence_for<Inputs...>;
  if constexpr (std::is_base_of_v<Module, std::remove_cvref_t<F>>) {
    static_assert(std::is_lvalue_reference_v<F>, "recompute: the module must live until the backward pass");
    return detail::recompute([&function, call](std::span<const Tensor> x) { return call(function, x, All{}); },
                             {Tensor(inputs)...});
  } else {
    return detail::recompute([function = std::forward<F>(function),
                              call](std::span<const Tensor> x) mutable { return call(function, x, All{}); },
                             {Tensor(inputs)...});
  }
}

// Runs all of `modules` in `segments` recomputed parts of about equal length.
Tensor recompute_sequential(Sequential& modules, std::int64_t segments, const Tensor& input);

}  // namespace tandem::nn

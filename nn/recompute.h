// recompute: a part of the network runs again in the backward pass instead of keeping what it computed. PyTorch
// calls this activation checkpointing (Chen et al., arXiv:1604.06174).
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174.)
#pragma once

#include <tandem/nn/sequential.h>

#include <functional>
#include <utility>

namespace tandem::nn {

namespace detail {
Tensor recompute(std::function<Tensor(std::span<const Tensor>)> function, std::vector<Tensor> inputs);
}

// function(inputs...), keeping only the inputs for the backward pass, which runs the function again for the rest:
//
//   Tensor x2 = nn::recompute([&](const Tensor& x) { return block(x); }, x1);
//   Tensor x3 = nn::recompute(attention_block, x2, mask);
//
// The second run draws the same random numbers from default_generator() and has the same Autocast. Gradients, those of
// parameters in the function included, come out as without recompute, and their on_grad_ready hooks fire once and as
// early. A part may hold further recomputed parts. A Module is taken by reference. What a function captures must live
// until the backward pass.
//
// The function must compute the same in both runs: Error in the backward pass when it used other parameters, or an
// input or parameter was changed in place in between. What else a forward pass changes it would change twice: it asks
// is_recomputing(), as BatchNorm2d does before it moves its running statistics.
template <class F, class... Inputs>
Tensor recompute(F&& function, const Inputs&... inputs) {
  static_assert((std::is_convertible_v<Inputs, Tensor> && ...), "recompute: every input is a Tensor");
  static_assert(sizeof...(Inputs) > 0, "recompute: give it the function's inputs");
  const auto call = []<std::size_t... i>(auto& f, std::span<const Tensor> x, std::index_sequence<i...>) {
    return f(x[i]...);
  };
  constexpr auto all = std::index_sequence_for<Inputs...>{};
  if constexpr (std::is_base_of_v<Module, std::remove_cvref_t<F>>) {
    static_assert(std::is_lvalue_reference_v<F>, "recompute: the module must live until the backward pass");
    return detail::recompute([&function, call](std::span<const Tensor> x) { return call(function, x, all); },
                             {Tensor(inputs)...});
  } else {
    return detail::recompute([function = std::forward<F>(function),
                              call](std::span<const Tensor> x) mutable { return call(function, x, all); },
                             {Tensor(inputs)...});
  }
}

// All of `modules`, in `segments` recomputed parts of as even a length as possible.
Tensor recompute_sequential(Sequential& modules, std::int64_t segments, const Tensor& input);

// Whether this thread is in the second run of a recompute, for modules whose forward pass counts something.
bool is_recomputing();

}  // namespace tandem::nn

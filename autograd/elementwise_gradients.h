// Backward passes of element-wise operations. The in-place operations share them with those that return a new tensor.
#pragma once

#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops.h>

namespace tandem::autograd {

// Returns whether record() has work to do for an operation on x: x needs a gradient, or a DetectAnomaly checks results.
inline bool is_recorded(const Tensor& x) { return (grad_enabled() && x.requires_grad()) || searches_anomalies(); }

// The gradient of x in y = op(x). `saved` is the value that op.saves names. It is unset if op.saves names nothing.
template <class F>
Array gradient_of(const F& op, const Saved& saved, const Array& grad) {
  if constexpr (std::is_same_v<F, functors::Affine>) {
    return op.scale == 1 ? grad : ops::map(functors::Affine{op.scale}, grad);
  } else if constexpr (std::is_same_v<F, functors::DivideBy>) {
    return ops::map(op, grad);
  } else if constexpr (F::saves == Saves::nothing) {
    return ops::full(grad.shape(), op.derivative(0.0), grad.dtype(), grad.device());
  } else {
    return ops::map_grad(op, saved, grad);
  }
}

template <class F>
Backward unary_backward(const F& op, const Saved& saved) {
  return [op, saved](const Array& grad, Needs) -> Gradients { return {gradient_of(op, saved, grad)}; };
}

// The operands of y = op(a, b) that the backward pass will need.
template <class F>
struct SavedOperands {
  Saved a, b;

  SavedOperands(const char* operation, const Array& a_value, bool needs_a, const Array& b_value, bool needs_b) {
    using functors::Add, functors::Sub, functors::Mul, functors::Div;
    constexpr bool is_sum = std::is_same_v<F, Add> || std::is_same_v<F, Sub>;
    constexpr bool is_product = std::is_same_v<F, Mul>, is_quotient = std::is_same_v<F, Div>;
    if (is_sum || !(needs_a || needs_b)) return;
    if (needs_b || !(is_product || is_quotient)) a = Saved(operation, a_value);
    if (needs_a || !is_product) b = Saved(operation, b_value);
  }
};

// The gradient of one operand of y = op(a, b), in the shape of y. It is computed in one pass over as few arrays as the
// operation allows.
template <class F>
Array operand_gradient(const F& op, int operand, const SavedOperands<F>& saved, const Array& grad) {
  if constexpr (std::is_same_v<F, functors::Add>) {
    return operand == 0 || op.alpha == 1 ? grad : ops::map(functors::Affine{op.alpha}, grad);
  } else if constexpr (std::is_same_v<F, functors::Sub>) {
    return operand == 0 ? grad : ops::map(functors::Affine{-1}, grad);
  } else if constexpr (std::is_same_v<F, functors::Mul>) {
    return ops::zip(op, grad, operand == 0 ? saved.b.get() : saved.a.get());
  } else {
    if (std::is_same_v<F, functors::Div> && operand == 0) return ops::zip(op, grad, saved.b.get());
    return ops::zip_grad(op, operand, saved.a, saved.b, grad);
  }
}

template <class F>
Backward binary_backward(const F& op, SavedOperands<F> saved, const Array& a, const Array& b) {
  // Even without saved values, a gradient needs the shapes and dtypes of the operands.
  return [op, saved = std::move(saved), shape_a = a.shape(), shape_b = b.shape(), dtype_a = a.dtype(),
          dtype_b = b.dtype()](const Array& grad, Needs needs) -> Gradients {
    Gradients gradients(2);
    if (needs[0]) gradients[0] = ops::sum_to(operand_gradient(op, 0, saved, grad), shape_a).to(dtype_a);
    if (needs[1]) gradients[1] = ops::sum_to(operand_gradient(op, 1, saved, grad), shape_b).to(dtype_b);
    return gradients;
  };
}

}  // namespace tandem::autograd

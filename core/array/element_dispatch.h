// Element-wise operations on Arrays, for every device. They choose by operation and dtype the function that a device's
// loops call for each element.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/element_functions.h>
#include <tandem/core/formulas/reductions.h>

namespace tandem {

// `Loops` stands for a device's loops. Loops::transform<Out, In>(inputs..., out, f) sets out[i] = f(inputs[i]...) for
// arrays with any strides. Loops::element_t<T> is the type that f accepts and returns for elements of type T.
namespace elementwise {

template <class Loops>
void convert(const Array& from, const Array& to) {
  dispatch(from.dtype(), [&](auto source) {
    using In = decltype(source);
    dispatch(to.dtype(), [&](auto target) {
      using Out = decltype(target);
      Loops::template transform<Out, In>(from, to, Convert<Out>{});
    });
  });
}

template <class Loops>
void fill(const Array& to, double value) {
  dispatch(to.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, bool>) Loops::template transform<T>(to, Constant<T>{value != 0});
    else Loops::template transform<T>(to, Constant<T>{static_cast<T>(functors::as<compute_t<T>>(value))});
  });
}

template <class Function>
concept TakesIntegers = requires {
  requires Function::takes_integers;
};

// Computes out = Function<F, T>{f}(inputs...) for each element. F is the operation in `op`. All arrays have the dtype
// of `out`, and T is the type for its elements.
template <class Loops, template <class, class> class Function, class Op, class... Inputs>
void apply(const Op& op, const Array& out, const Inputs&... inputs) {
  std::visit(
      [&]<class F>(const F& f) {
        const auto run = [&](auto type) {
          using T = typename Loops::template element_t<decltype(type)>;
          Loops::template transform<T, T>(inputs..., out, Function<F, T>{f});
        };
        if constexpr (TakesIntegers<Function<F, float>>) dispatch_number(out.dtype(), "arithmetic", run);
        else dispatch_floating(out.dtype(), "element-wise operation", run);
      },
      op);
}

template <class Loops>
void compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit(
      [&]<class F>(const F& f) {
        dispatch(a.dtype(), [&](auto type) {
          using T = typename Loops::template element_t<decltype(type)>;
          Loops::template transform<bool, T>(a, b, y, Comparison<F, T>{f});
        });
      },
      op);
}

template <class Loops>
void compare(const CompareOp& op, const Array& x, double number, const Array& y) {
  std::visit(
      [&]<class F>(const F& f) {
        dispatch_number(x.dtype(), "comparison with a number", [&](auto type) {
          using T = typename Loops::template element_t<decltype(type)>;
          Loops::template transform<bool, T>(x, y, ComparisonWithNumber<F, T>{f, functors::as<compute_t<T>>(number)});
        });
      },
      op);
}

template <class Loops>
void where(const Array& condition, const Array& a, const Array& b, const Array& y) {
  dispatch_bits(y.dtype(), [&](auto bits) {
    Loops::template select<decltype(bits)>(condition, a, b, y, Choose{});  // elements are only moved
  });
}

}  // namespace elementwise

// Implements Backend::reduce_grad with the element-wise loops of a device.
template <class Loops>
void reduce_grad(const Reduction& op, const Array& x, const Array& y, const Array& grad_y, const Array& grad_x) {
  with_derivative(op, [&](const auto& f) {
    using F = std::decay_t<decltype(f)>;
    dispatch_floating(grad_x.dtype(), "gradient of a reduction", [&](auto type) {
      using T = typename Loops::template element_t<decltype(type)>;
      Loops::template transform<T, T>(x, y, grad_y, grad_x, ReductionGradient<F, T>{f});
    });
  });
}

}  // namespace tandem

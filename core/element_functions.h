// Element-wise operations for every device: what its loops call for each element, and the choice of that by operation and
// dtype. The arithmetic happens in compute_t, and the result is rounded once.
#pragma once

#include <tandem/core/array.h>
#include <tandem/core/functors.h>

namespace tandem {

template <class Out>
struct Convert {
  template <class In>
  TANDEM_HOST_DEVICE Out operator()(In x) const {
    return static_cast<Out>(static_cast<compute_t<In>>(x));
  }
};

// The same bits, whatever they stand for.
struct Keep {
  template <class Bits>
  TANDEM_HOST_DEVICE Bits operator()(Bits x) const {
    return x;
  }
};

template <class T>
struct Constant {
  T value;
  TANDEM_HOST_DEVICE T operator()() const { return value; }
};

// y = f(x), y = f(a, b)
template <class F, class T>
struct Value {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T x) const { return static_cast<T>(f.value(static_cast<C>(x))); }
  TANDEM_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(f.value(static_cast<C>(a), static_cast<C>(b)));
  }
};

// grad_x from what f saves and grad_y
template <class F, class T>
struct UnaryGradient {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T saved, T grad_y) const {
    return static_cast<T>(static_cast<C>(grad_y) * f.derivative(static_cast<C>(saved)));
  }
};

// The gradient of operand 0 or 1 from a, b and grad_y
template <class F, class T>
struct BinaryGradient {
  using C = compute_t<T>;
  F f;
  int operand;
  TANDEM_HOST_DEVICE T operator()(T a, T b, T grad_y) const {
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    return static_cast<T>(static_cast<C>(grad_y) *
                          (operand == 0 ? f.derivative_a(x, y) : f.derivative_b(x, y)));
  }
};

template <class F, class T>
struct Comparison {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE bool operator()(T a, T b) const { return f.value(static_cast<C>(a), static_cast<C>(b)); }
};

// The loops of a device: Loops::transform<Out, In>(inputs..., out, f) sets out[i] = f(inputs[i]...), any strides.
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
    Loops::template transform<T>(to, Constant<T>{static_cast<T>(static_cast<compute_t<T>>(value))});
  });
}

template <class Loops>
void map(const UnaryOp& op, const Array& x, const Array& y) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        const auto run = [&](auto type) {
          using T = decltype(type);
          Loops::template transform<T, T>(x, y, Value<F, T>{f});
        };
        if constexpr (std::is_same_v<F, functors::Affine>) dispatch_number(x.dtype(), "arithmetic", run);
        else dispatch_floating(x.dtype(), "element-wise operation", run);
      },
      op);
}

template <class Loops>
void map_grad(const UnaryOp& op, const Array& saved, const Array& grad_y, const Array& grad_x) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        dispatch_floating(grad_y.dtype(), "gradient of an element-wise operation", [&](auto type) {
          using T = decltype(type);
          Loops::template transform<T, T>(saved, grad_y, grad_x, UnaryGradient<F, T>{f});
        });
      },
      op);
}

template <class Loops>
void zip(const BinaryOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        dispatch_number(y.dtype(), "arithmetic", [&](auto type) {
          using T = decltype(type);
          Loops::template transform<T, T>(a, b, y, Value<F, T>{f});
        });
      },
      op);
}

template <class Loops>
void zip_grad(const BinaryOp& op, int operand, const Array& a, const Array& b, const Array& grad_y,
              const Array& grad) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        dispatch_floating(grad.dtype(), "gradient of an element-wise operation", [&](auto type) {
          using T = decltype(type);
          Loops::template transform<T, T>(a, b, grad_y, grad, BinaryGradient<F, T>{f, operand});
        });
      },
      op);
}

template <class Loops>
void compare(const CompareOp& op, const Array& a, const Array& b, const Array& y) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        dispatch(a.dtype(), [&](auto type) {
          using T = decltype(type);
          Loops::template transform<bool, T>(a, b, y, Comparison<F, T>{f});
        });
      },
      op);
}

}  // namespace elementwise

}  // namespace tandem

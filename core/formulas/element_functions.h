// Element-wise operations for every device: what its loops call for each element, and the choice of that by operation and
// dtype. The arithmetic happens in compute_t, and the result is rounded once.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/functors.h>

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

// grad_y * derivative
template <class F, class C>
TANDEM_HOST_DEVICE C chain(C grad_y, C derivative) {
  if constexpr (selects<F>) return derivative == C(0) ? C(0) : grad_y * derivative;
  else return grad_y * derivative;
}

// grad_x from what f saves and grad_y
template <class F, class T>
struct UnaryGradient {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T saved, T grad_y) const {
    return static_cast<T>(chain<F, C>(static_cast<C>(grad_y), f.derivative(static_cast<C>(saved))));
  }
};

// The gradient of one operand from a, b and grad_y
template <class F, class T, int operand>
struct BinaryGradient {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE T operator()(T a, T b, T grad_y) const {
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    if constexpr (operand == 0)
      return static_cast<T>(chain<F, C>(static_cast<C>(grad_y), f.derivative_a(x, y)));
    else return static_cast<T>(chain<F, C>(static_cast<C>(grad_y), f.derivative_b(x, y)));
  }
};

template <class F, class T>
struct Comparison {
  using C = compute_t<T>;
  F f;
  TANDEM_HOST_DEVICE bool operator()(T a, T b) const { return f.value(static_cast<C>(a), static_cast<C>(b)); }
};

template <class F, class T>
struct ComparisonWithNumber {
  using C = compute_t<T>;
  F f;
  C number;
  TANDEM_HOST_DEVICE bool operator()(T x) const { return f.value(static_cast<C>(x), number); }
};

// condition ? a : b
struct Choose {
  template <class Bits>
  TANDEM_HOST_DEVICE Bits operator()(bool condition, Bits a, Bits b) const {
    return condition ? a : b;
  }
};

// The loops of a device: Loops::transform<Out, In>(inputs..., out, f) sets out[i] = f(inputs[i]...), any strides.
// Loops::element_t<T> is the type that f takes and gives for elements of type T.
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

template <class Loops>
void map(const UnaryOp& op, const Array& x, const Array& y) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        const auto run = [&](auto type) {
          using T = typename Loops::template element_t<decltype(type)>;
          Loops::template transform<T, T>(x, y, Value<F, T>{f});
        };
        if constexpr (keeps_integers<F>) dispatch_number(x.dtype(), "arithmetic", run);
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
          using T = typename Loops::template element_t<decltype(type)>;
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
          using T = typename Loops::template element_t<decltype(type)>;
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
          using T = typename Loops::template element_t<decltype(type)>;
          if (operand == 0) Loops::template transform<T, T>(a, b, grad_y, grad, BinaryGradient<F, T, 0>{f});
          else Loops::template transform<T, T>(a, b, grad_y, grad, BinaryGradient<F, T, 1>{f});
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
          using T = typename Loops::template element_t<decltype(type)>;
          Loops::template transform<bool, T>(a, b, y, Comparison<F, T>{f});
        });
      },
      op);
}

template <class Loops>
void compare(const CompareOp& op, const Array& x, double number, const Array& y) {
  std::visit(
      [&](const auto& f) {
        using F = std::decay_t<decltype(f)>;
        dispatch_number(x.dtype(), "comparison with a number", [&](auto type) {
          using T = typename Loops::template element_t<decltype(type)>;
          Loops::template transform<bool, T>(
              x, y, ComparisonWithNumber<F, T>{f, functors::as<compute_t<T>>(number)});
        });
      },
      op);
}

template <class Loops>
void where(const Array& condition, const Array& a, const Array& b, const Array& y) {
  const auto choose = [&](auto bits) {
    Loops::template select<decltype(bits)>(condition, a, b, y, Choose{});
  };
  switch (size_of(y.dtype())) {
    case 1: return choose(std::uint8_t{});
    case 2: return choose(std::uint16_t{});
    case 4: return choose(std::uint32_t{});
    default: return choose(std::uint64_t{});
  }
}

}  // namespace elementwise

}  // namespace tandem

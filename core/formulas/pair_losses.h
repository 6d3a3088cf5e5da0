// Losses that compare a prediction with its target, element by element: one struct for each, with value and derivatives
// side by side, compiled for every device.
//
// The template parameter M provides the arithmetic (core/formulas/lane_math.h).
#pragma once

#include <tandem/core/formulas/lane_math.h>
#include <tandem/core/formulas/loss_reduction.h>

#include <variant>

namespace tandem {

namespace losses {

using lanes::magnitude;
using lanes::sigmoid;

// Returns the sign of x: 1 or -1, 0 for 0, and NaN for NaN.
template <class M, class V = typename M::V>
TANDEM_HOST_DEVICE V sign(V x) {
  const V one = V{} + typename M::C(1), other = x < 0 ? -one : x;  // a NaN stays a NaN
  return x > 0 ? one : other;
}

// A loss that depends only on d = prediction - target. The derived Loss has at(d), its value, and slope(d), its
// derivative.
template <class Loss>
struct OfDifference {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V value(V x, V t) const {
    return static_cast<const Loss*>(this)->template at<M>(x - t);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_a(V x, V t) const {
    return static_cast<const Loss*>(this)->template slope<M>(x - t);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_b(V x, V t) const {
    return -static_cast<const Loss*>(this)->template slope<M>(x - t);
  }
};

struct Squared : OfDifference<Squared> {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V at(V d) const {
    return d * d;
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V slope(V d) const {
    return d + d;
  }
};

struct Absolute : OfDifference<Absolute> {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V at(V d) const {
    return magnitude<M>(d);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V slope(V d) const {
    return sign<M>(d);
  }
};

// A parabola where |d| is below `bend`, and a line beyond it. `steepness` is the slope of that line: `bend` for the
// Huber loss, 1 for the smooth L1 loss.
struct Bent : OfDifference<Bent> {
  double bend = 1, steepness = 1;
  Bent(double bend, double steepness) : bend(bend), steepness(steepness) {}
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V at(V d) const {
    using C = typename M::C;
    const C b = static_cast<C>(bend), s = static_cast<C>(steepness);
    const V far = magnitude<M>(d);
    const V line = (far - C(0.5) * b) * s, parabola = far * far * (C(0.5) * s / b);
    return far < b ? parabola : line;
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V slope(V d) const {
    using C = typename M::C;
    const C b = static_cast<C>(bend), s = static_cast<C>(steepness);
    const V line = sign<M>(d) * s, parabola = d * (s / b);
    return magnitude<M>(d) < b ? parabola : line;
  }
};

// log(1 + exp(-x))
template <class M, class V = typename M::V>
TANDEM_HOST_DEVICE V softplus_of_negative(V x) {
  const V negative = x < 0 ? x : V{};
  return M::log1p(M::exp(-magnitude<M>(x))) - negative;
}
// Binary cross-entropy between sigmoid(x) and the target.
struct BinaryWithLogits {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V value(V x, V t) const {
    return (typename M::C(1) - t) * x + softplus_of_negative<M>(x);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_a(V x, V t) const {
    return sigmoid<M>(x) - t;
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_b(V x, V) const {
    return -x;
  }
};

// The part of that loss that comes from positive targets t: t * log(1 + exp(-x)).
struct PositivesWithLogits {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V value(V x, V t) const {
    return t * softplus_of_negative<M>(x);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_a(V x, V t) const {
    return -t * sigmoid<M>(-x);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_b(V x, V) const {
    return softplus_of_negative<M>(x);
  }
};

// Binary cross-entropy between a probability x and the target. Logarithms are limited to -100 and above, so a
// prediction that is certain and wrong has a finite loss.
struct Binary {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V value(V x, V t) const {
    using C = typename M::C;
    const V least = V{} - C(100), yes = M::log(x), no = M::log1p(-x);
    return (t - C(1)) * (no < least ? least : no) - t * (yes < least ? least : yes);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_a(V x, V t) const {
    using C = typename M::C;
    const V least = V{} + C(1e-12), variance = x * (C(1) - x);
    return (x - t) / (variance < least ? least : variance);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_b(V x, V) const {
    return M::log1p(-x) - M::log(x);
  }
};

// t (log t - x), and 0 for t = 0, where x is the logarithm of a probability.
struct KullbackLeibler {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V value(V x, V t) const {
    const V entropy = t * M::log(t);
    return (t == 0 ? V{} : entropy) - t * x;
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_a(V, V t) const {
    return -t;
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_b(V x, V t) const {
    return M::log(t) + typename M::C(1) - x;
  }
};

// The same loss for a target t that is also the logarithm of a probability.
struct KullbackLeiblerOfLogs {
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V value(V x, V t) const {
    return M::exp(t) * (t - x);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_a(V, V t) const {
    return -M::exp(t);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE V derivative_b(V x, V t) const {
    return M::exp(t) * (t - x + typename M::C(1));
  }
};

}  // namespace losses

using PairLoss =
    std::variant<losses::Squared, losses::Absolute, losses::Bent, losses::BinaryWithLogits, losses::PositivesWithLogits,
                 losses::Binary, losses::KullbackLeibler, losses::KullbackLeiblerOfLogs>;

}  // namespace tandem

// The cells of recurrent layers: how a step changes the state of a sequence, and the derivatives. Compiled for every
// device.
//
// A layer has H units. For each unit, a cell has G gates. A gate receives a number x from the input of the step and a
// number h from the state before the step. Both are products with weights, which are computed elsewhere. If a cell only
// `adds` x and h of every gate, both have the same gradient. The state has S numbers per unit: h, and also c in an
// LSTM. K numbers per unit are stored for the gradient.
//
// step() computes the state after the step. gradient() receives the gradient of that state in `grad`, and replaces it
// by the part of the gradient that reaches the state before the step without passing the gates. It also computes the
// gradients of x and h.
//
// The template parameter M provides the arithmetic (core/formulas/lane_math.h).
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/core/formulas/lane_math.h>
#include <tandem/core/formulas/recurrent_cell.h>

namespace tandem {

namespace cells {

using lanes::sigmoid;

// h' = tanh(x + h)
struct Tanh {
  static constexpr int gates = 1, states = 1, kept = 0;
  static constexpr bool adds = true;
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void step(const V* x, const V* h, const V*, V* after, V*) {
    after[0] = M::tanh(x[0] + h[0]);
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void gradient(const V*, const V*, const V* after, V* grad, V* grad_x, V* grad_h) {
    grad_x[0] = grad_h[0] = grad[0] * (typename M::C(1) - after[0] * after[0]);
    grad[0] = V{};
  }
};

// h' = relu(x + h)
struct Relu {
  static constexpr int gates = 1, states = 1, kept = 0;
  static constexpr bool adds = true;
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void step(const V* x, const V* h, const V*, V* after, V*) {
    const V sum = x[0] + h[0];
    after[0] = sum < 0 ? V{} : sum;  // keeps NaN
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void gradient(const V*, const V*, const V* after, V* grad, V* grad_x, V* grad_h) {
    grad_x[0] = grad_h[0] = after[0] <= 0 ? V{} : grad[0];
    grad[0] = V{};
  }
};

// The gates are i, f, g and o: c' = f c + i g and h' = o tanh(c'). The values of the gates are stored.
struct Lstm {
  static constexpr int gates = 4, states = 2, kept = 4;
  static constexpr bool adds = true;
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void step(const V* x, const V* h, const V* before, V* after, V* kept) {
    const V i = sigmoid<M>(x[0] + h[0]), f = sigmoid<M>(x[1] + h[1]);
    const V g = M::tanh(x[2] + h[2]), o = sigmoid<M>(x[3] + h[3]);
    after[1] = f * before[1] + i * g;
    after[0] = o * M::tanh(after[1]);
    kept[0] = i;
    kept[1] = f;
    kept[2] = g;
    kept[3] = o;
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void gradient(const V* kept, const V* before, const V* after, V* grad, V* grad_x,
                                          V* grad_h) {
    const auto one = typename M::C(1);
    const V i = kept[0], f = kept[1], g = kept[2], o = kept[3], bent = M::tanh(after[1]);
    const V grad_c = grad[1] + grad[0] * o * (one - bent * bent);
    grad_x[0] = grad_h[0] = grad_c * g * i * (one - i);
    grad_x[1] = grad_h[1] = grad_c * before[1] * f * (one - f);
    grad_x[2] = grad_h[2] = grad_c * i * (one - g * g);
    grad_x[3] = grad_h[3] = grad[0] * bent * o * (one - o);
    grad[0] = V{};
    grad[1] = grad_c * f;
  }
};

// The gates are r, z and n: h' = n + z (h - n), where n = tanh(x of n + r * h of n). r, z, n and h of n are stored.
struct Gru {
  static constexpr int gates = 3, states = 1, kept = 4;
  static constexpr bool adds = false;
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void step(const V* x, const V* h, const V* before, V* after, V* kept) {
    const V r = sigmoid<M>(x[0] + h[0]), z = sigmoid<M>(x[1] + h[1]), n = M::tanh(x[2] + r * h[2]);
    after[0] = n + z * (before[0] - n);
    kept[0] = r;
    kept[1] = z;
    kept[2] = n;
    kept[3] = h[2];
  }
  template <class M, class V = typename M::V>
  TANDEM_HOST_DEVICE static void gradient(const V* kept, const V* before, const V*, V* grad, V* grad_x, V* grad_h) {
    const auto one = typename M::C(1);
    const V r = kept[0], z = kept[1], n = kept[2];
    grad_x[2] = grad[0] * (one - z) * (one - n * n);
    grad_h[2] = grad_x[2] * r;
    grad_x[0] = grad_h[0] = grad_x[2] * kept[3] * r * (one - r);
    grad_x[1] = grad_h[1] = grad[0] * (before[0] - n) * z * (one - z);
    grad[0] = grad[0] * z;
  }
};

}  // namespace cells

// Calls f(struct) with the struct of `cell`.
template <class F>
auto with_cell(RecurrentCell cell, F f) {
  switch (cell) {
    case RecurrentCell::tanh: return f(cells::Tanh{});
    case RecurrentCell::relu: return f(cells::Relu{});
    case RecurrentCell::lstm: return f(cells::Lstm{});
    case RecurrentCell::gru: return f(cells::Gru{});
  }
  detail::fail("recurrent layer: invalid cell ", static_cast<int>(cell));
}

// A step of N sequences in memory, with numbers of type T. run() processes units of sequence n, starting at `unit`: as
// many as M has lanes, or fewer at the end.
template <class T>
struct RecurrentStep {
  std::int64_t units;        // H
  const T *from_x, *from_h;  // (N, G, H): x and h of each gate
  const T* bias;             // (G, H), added to from_h; null: nothing is added
  const T* before;           // (N, H): h; c is at `before_step` numbers from it
  T* after;                  // (N, H): h; c is at `after_step` numbers from it
  std::int64_t before_step, after_step;
  T* kept;  // (N, K, H)

  // Takes the arrays of Backend::recurrent_step().
  template <class Array>
  RecurrentStep(const Array& from_x, const Array& from_h, const Array* bias, const Array& before, const Array& after,
                const Array& kept)
      : units(after.dim(2)),
        from_x(static_cast<const T*>(from_x.raw())),
        from_h(static_cast<const T*>(from_h.raw())),
        bias(bias ? static_cast<const T*>(bias->raw()) : nullptr),
        before(static_cast<const T*>(before.raw())),
        after(static_cast<T*>(after.raw())),
        before_step(before.strides()[0]),
        after_step(after.strides()[0]),
        kept(static_cast<T*>(kept.raw())) {}

  template <class Cell, class M>
  TANDEM_HOST_DEVICE void run(std::int64_t n, std::int64_t unit, std::int64_t some) const {
    using V = typename M::V;
    constexpr int G = Cell::gates, S = Cell::states, K = Cell::kept;
    V x[G], h[G], old[S], now[S], keep[K > 0 ? K : 1];
    for (int g = 0; g < G; ++g) {
      x[g] = M::load_some(from_x + (n * G + g) * units + unit, some);
      h[g] = M::load_some(from_h + (n * G + g) * units + unit, some);
      if (bias) h[g] += M::load_some(bias + g * units + unit, some);
    }
    for (int s = 0; s < S; ++s) old[s] = M::load_some(before + s * before_step + n * units + unit, some);
    Cell::template step<M>(x, h, old, now, keep);
    for (int s = 0; s < S; ++s) M::store_some(after + s * after_step + n * units + unit, now[s], some);
    for (int k = 0; k < K; ++k) M::store_some(kept + (n * K + k) * units + unit, keep[k], some);
  }
};

// The gradient of a RecurrentStep.
template <class T>
struct RecurrentStepGradient {
  std::int64_t units;
  const T *kept, *before, *after;
  const T* grad_after;      // (N, H): the external gradient of h; c is at `after_step` from it
  const T* grad_h_of_next;  // (N, H): the gradient of h through the gates of the following step, or null
  T* carried;               // (N, H): the gradient that bypasses the gates, first of the next step, then of this one; c
                            // is at `carried_step` from it
  std::int64_t before_step, after_step, carried_step;
  T *grad_x, *grad_h;  // (N, G, H)

  // Takes the arrays of Backend::recurrent_step_grad().
  template <class Array>
  RecurrentStepGradient(const Array& kept, const Array& before, const Array& after, const Array& grad_after,
                        const Array* grad_h_of_next, const Array& carried, const Array& grad_x, const Array& grad_h)
      : units(after.dim(2)),
        kept(static_cast<const T*>(kept.raw())),
        before(static_cast<const T*>(before.raw())),
        after(static_cast<const T*>(after.raw())),
        grad_after(static_cast<const T*>(grad_after.raw())),
        grad_h_of_next(grad_h_of_next ? static_cast<const T*>(grad_h_of_next->raw()) : nullptr),
        carried(static_cast<T*>(carried.raw())),
        before_step(before.strides()[0]),
        after_step(after.strides()[0]),
        carried_step(carried.strides()[0]),
        grad_x(static_cast<T*>(grad_x.raw())),
        grad_h(static_cast<T*>(grad_h.raw())) {}

  template <class Cell, class M>
  TANDEM_HOST_DEVICE void run(std::int64_t n, std::int64_t unit, std::int64_t some) const {
    using V = typename M::V;
    constexpr int G = Cell::gates, S = Cell::states, K = Cell::kept;
    V keep[K > 0 ? K : 1], old[S], now[S], grad[S], of_x[G], of_h[G];
    const std::int64_t at = n * units + unit;
    for (int k = 0; k < K; ++k) keep[k] = M::load_some(kept + (n * K + k) * units + unit, some);
    for (int s = 0; s < S; ++s) {
      old[s] = M::load_some(before + s * before_step + at, some);
      now[s] = M::load_some(after + s * after_step + at, some);
      grad[s] =
          M::load_some(grad_after + s * after_step + at, some) + M::load_some(carried + s * carried_step + at, some);
    }
    if (grad_h_of_next) grad[0] += M::load_some(grad_h_of_next + at, some);
    Cell::template gradient<M>(keep, old, now, grad, of_x, of_h);
    for (int s = 0; s < S; ++s) M::store_some(carried + s * carried_step + at, grad[s], some);
    for (int g = 0; g < G; ++g) {
      M::store_some(grad_x + (n * G + g) * units + unit, of_x[g], some);
      if (!Cell::adds) M::store_some(grad_h + (n * G + g) * units + unit, of_h[g], some);
    }
  }
};

inline int gates_of(RecurrentCell cell) {
  return with_cell(cell, [](auto c) { return c.gates; });
}
inline int states_of(RecurrentCell cell) {
  return with_cell(cell, [](auto c) { return c.states; });
}
inline bool adds_gates(RecurrentCell cell) {
  return with_cell(cell, [](auto c) { return c.adds; });
}
inline int kept_of(RecurrentCell cell) {
  return with_cell(cell, [](auto c) { return c.kept; });
}

}  // namespace tandem

// The loop over time of a recurrent layer, and its gradient.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/recurrent_cell.h>

#include <span>

namespace tandem::ops {

// The states of the loop: before the first step and after each of the L steps. They are stored in the order of time.
// With `reverse`, the layer begins at the last step, so the initial state is stored last.
struct RecurrentStates {
  Array states;  // (S, L + 1, N, H)
  Array kept;    // (L, N, K * H), for the gradient

  // (S, L, N, H): the states before and after the steps.
  Array before(bool reverse) const { return states.narrow(1, reverse ? 1 : 0, states.dim(1) - 1); }
  Array after(bool reverse) const { return states.narrow(1, reverse ? 0 : 1, states.dim(1) - 1); }
};

// from_x is (L, N, G * H), weight (G * H, H), bias (G * H) or undefined. `first` is the initial state: S arrays (N, H)
// of one dtype, which is also the dtype of all states. The products with the weight are computed in the dtype of the
// weight. Without `keeps_all`, the contents of `kept` are undefined.
RecurrentStates recurrent(RecurrentCell cell, const Array& from_x, const Array& weight, const Array& bias,
                          std::span<const Array> first, bool reverse, bool keeps_all);

struct RecurrentGradients {
  Array from_x, from_h;  // (L, N, G * H): of the two inputs of the gates; the same array if the cell only adds
  Array first;           // (S, N, H)
};
// `grad` is the gradient of the states and has their shape.
RecurrentGradients recurrent_grad(RecurrentCell cell, const Array& weight, const RecurrentStates& forward,
                                  const Array& grad, bool reverse);

}  // namespace tandem::ops

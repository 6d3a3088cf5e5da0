// The loop over time of a recurrent layer, and the way back.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/recurrent_cell.h>

#include <span>

namespace tandem::ops {

// What the loop made: the state before the first step and after each of the L steps. In memory the states are in the
// order of time: with `reverse` the layer begins at the last step, and the first state comes last.
struct RecurrentStates {
  Array states;  // (S, L + 1, N, H)
  Array kept;    // (L, N, K * H), for the gradient

  // (S, L, N, H): the states before, and after, the steps.
  Array before(bool reverse) const { return states.narrow(1, reverse ? 1 : 0, states.dim(1) - 1); }
  Array after(bool reverse) const { return states.narrow(1, reverse ? 0 : 1, states.dim(1) - 1); }
};

// from_x (L, N, G * H), weight (G * H, H), bias (G * H) or undefined, and the first state, S arrays (N, H) of one
// dtype, which is the dtype of the states. The products with the weight are computed in the dtype of the weight.
// The contents of `kept` are undefined without `keeps_all`.
RecurrentStates recurrent(RecurrentCell cell, const Array& from_x, const Array& weight, const Array& bias,
                          std::span<const Array> first, bool reverse, bool keeps_all);

struct RecurrentGradients {
  Array from_x, from_h;  // (L, N, G * H): of the gates' two sides, which are one array where the cell only adds
  Array first;           // (S, N, H)
};
// `grad` is the gradient of the states, in their shape.
RecurrentGradients recurrent_grad(RecurrentCell cell, const Array& weight, const RecurrentStates& forward,
                                  const Array& grad, bool reverse);

}  // namespace tandem::ops

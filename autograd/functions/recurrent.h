// Recurrence: the loop over time in recurrent layers.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/recurrent_cell.h>

namespace tandem {

// The initial state, which a layer updates at each step, and the direction in which it reads.
struct RecurrenceOptions {
  Tensor h_0, c_0;  // (N, H), of one dtype, which the results get; undefined: zeros. Only RecurrentCell::lstm has c
  bool reverse = false;  // starts with the last step
};
// The results of one layer. output is h after each step, (L, N, H) in the order of the input. h_n and c_n, (N, H), are
// the states after the last step that was read. c_n is undefined for cells without c.
struct Recurrence {
  Tensor output, h_n, c_n;
};
// Reads the sequences from_x (L, N, G * H) step by step with a cell of core/formulas/recurrent.h, such as
// RecurrentCell::lstm. from_x holds `x weight_ih^T + bias_ih` of the layer, for all steps. weight (G * H, H) and bias
// (G * H) map h to the gates; bias may be undefined. nn/recurrent.h has the layers.
Recurrence recurrence(RecurrentCell cell, const Tensor& from_x, const Tensor& weight, const Tensor& bias = {},
                      const RecurrenceOptions& options = {});

}  // namespace tandem

// Recurrence, the loop over time of recurrent layers.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/formulas/recurrent_cell.h>

namespace tandem {

// The initial state that a layer carries from step to step, and the direction in which it reads.
struct RecurrenceOptions {
  Tensor h_0, c_0;  // (N, H), of one dtype, which the results get; undefined: zeros. Only RecurrentCell::lstm has c
  bool reverse = false;  // begins with the last step
};
// The results of one layer: h after each step, (L, N, H) in the order of the input, and h and c after the last step
// that was read, (N, H). c_n is undefined for cells without c.
struct Recurrence {
  Tensor output, h_n, c_n;
};
// Reads the sequences from_x (L, N, G * H) step by step with a cell of core/formulas/recurrent.h, such as
// RecurrentCell::lstm. from_x is x weight_ih^T + bias_ih of a layer, for all steps at once. weight (G * H, H) and bias
// (G * H) are those by which h reaches the gates; bias may be undefined. nn/recurrent.h has the layers.
Recurrence recurrence(RecurrentCell cell, const Tensor& from_x, const Tensor& weight, const Tensor& bias = {},
                      const RecurrenceOptions& options = {});

}  // namespace tandem

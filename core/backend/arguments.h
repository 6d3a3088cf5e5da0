// The arguments of Backend's operations that hold several arrays.
#pragma once

#include <tandem/core/array/array.h>

#include <cstdint>

namespace tandem {

// What batch normalisation subtracts (mean), multiplies by (invstd, weight) and adds (bias), per channel: arrays of
// (C), f32, or f64 for f64 input.
struct BatchNormAffine {
  Array mean, invstd;  // of this batch; in evaluation from the running statistics
  Array weight, bias;
};

// A ReLU behind an addend. Its output `y` tells where it let numbers through. `grad`, an output like y, is the gradient
// before it.
struct BatchNormLastRelu {
  Array y, grad;
};

// What training computes from the statistics of a batch. The arrays are (C), in the dtype of the statistics.
struct BatchNormUpdate {
  // Running statistics are moved by `momentum` towards those of the batch, unless the batch is empty. Undefined: there
  // are none.
  Array running_mean, running_var;
  Array invstd;  // an output: 1 / sqrt(variance of the batch + eps)
  double momentum;
  double eps;
  Array num_batches = {};  // () i64, raised by one; undefined if batches are not counted
};

// Which keys each query may look at.
struct AttentionMask {
  // (..., L, S), any strides, in compute_t of the scores' dtype, to which it is added. Undefined: nothing is added.
  Array added = {};
  bool is_causal = false;  // query i sees the keys 0 .. i only
};

// The number from which a mask of dropout follows.
struct DropoutKey {
  std::uint64_t number = 0;
  Array stored = {};  // (2) i32 on a GPU: where the kernel finds the number; undefined: the number is the one above
};

}  // namespace tandem

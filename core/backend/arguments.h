// Arguments of Backend's operations that consist of several arrays.
#pragma once

#include <tandem/core/array/array.h>

#include <cstdint>

namespace tandem {

// The values that batch normalisation subtracts (mean), multiplies by (invstd, weight) and adds (bias), per channel.
// The arrays are (C), f32, or f64 for f64 input.
struct BatchNormAffine {
  Array mean, invstd;  // of this batch; in evaluation computed from the running statistics
  Array weight, bias;
};

// A ReLU that follows the addition of an addend. Its output `y` shows which numbers it let through. `grad`, an output
// like y, is the gradient before the ReLU.
struct BatchNormLastRelu {
  Array y, grad;
};

// The values that training computes from the statistics of a batch. The arrays are (C), in the dtype of the statistics.
struct BatchNormUpdate {
  // Running statistics move by `momentum` towards those of the batch, unless the batch is empty. Undefined: there are
  // no running statistics.
  Array running_mean, running_var;
  Array invstd;  // an output: 1 / sqrt(variance of the batch + eps)
  double momentum;
  double eps;
  Array num_batches = {};  // () i64, incremented by one; undefined if batches are not counted
};

// Says which keys each query may attend to.
struct AttentionMask {
  // (..., L, S), with any strides. It is added to the scores, and its dtype is compute_t of the scores' dtype. If
  // undefined, nothing is added.
  Array added = {};
  bool is_causal = false;  // query i may attend only to the keys 0 .. i
};

// The number that determines a dropout mask.
struct DropoutKey {
  std::uint64_t number = 0;
  Array stored = {};  // (2) i32 on a GPU: the kernel reads the number from it; undefined: `number` is used
};

}  // namespace tandem

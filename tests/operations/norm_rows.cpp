#include <tandem/autograd/ops.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

Tensor normalise(Call& c, BatchNormFusion fusion) {
  BatchNormState state{c.running_mean, c.running_var, c.attributes.at("training"),
                       c.attributes.at("momentum"), c.attributes.at("eps")};
  return batch_norm(c.in[0], c.in[1], c.in[2], state, fusion);
}

const MaxPoolOptions two_by_two{.kernel_size = 2};

}  // namespace

std::vector<Row> norm_rows() {
  return {
      // Batch norms keep weight and bias in f32.
      {.op = "batch_norm", .function = [](Call& c) { return normalise(c, {}); }, .low_inputs = 1},
      {.op = "batch_norm_relu",
       .function = [](Call& c) { return normalise(c, {.relu = true}); },
       .variant = "fused",
       .low_inputs = 1},
      {.op = "batch_norm_relu",
       .function = [](Call& c) { return relu(normalise(c, {})); },
       .variant = "in_steps",
       .low_inputs = 1},
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return normalise(c, {.relu = true, .max_pool_2x2 = true}); },
       .variant = "fused",
       .low_inputs = 1},
      // Not in 16 bits: rounding between the steps makes equals of unequal values, and another one becomes the maximum.
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return max_pool2d(relu(normalise(c, {})), two_by_two); },
       .variant = "in_steps",
       .low_inputs = 0},
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return max_pool2d(normalise(c, {.relu = true}), two_by_two); },
       .variant = "pool_apart",
       .low_inputs = 0},
  };
}

}  // namespace tandem::testing

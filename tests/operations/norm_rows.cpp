#include <tandem/autograd/functions.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

// The inputs are x, optionally the array that is added before ReLU, the weight and the bias.
Tensor normalise(Call& c, BatchNormFusion fusion) {
  BatchNormState state{c.running_mean, c.running_var, c.attributes.at("training"), c.attributes.at("momentum"),
                       c.attributes.at("eps")};
  const bool adds = c.in.size() == 4;
  return batch_norm(c.in[0], c.in[adds ? 2 : 1], c.in[adds ? 3 : 2], state, fusion, adds ? c.in[1] : Tensor());
}

// Returns the last `dims` dimensions of the input.
Shape last_dims(const Call& c) {
  const Shape& shape = c.in[0].shape();
  const auto dims = c.get<int>("dims");
  TANDEM_CHECK(dims <= shape.ndim(), "a case of ", dims, " dimensions, on an input ", shape);
  Shape last;
  for (int i = shape.ndim() - dims; i < shape.ndim(); ++i) last.push_back(shape[i]);
  return last;
}

std::optional<double> optional_eps(const Call& c) {
  return c.has("eps") ? std::optional(c.get<double>("eps")) : std::nullopt;
}

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
      {.op = "batch_norm_add_relu",
       .function = [](Call& c) { return normalise(c, {.relu = true}); },
       .variant = "fused",
       .low_inputs = 2},
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return normalise(c, {.relu = true, .max_pool_2x2 = true}); },
       .variant = "fused",
       .low_inputs = 1},
      // Not tested in 16 bits: rounding between the steps makes different values equal, and the maximum is then a
      // different element.
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return max_pool2d(relu(normalise(c, {})), 2); },
       .variant = "in_steps",
       .low_inputs = 0},
      {.op = "batch_norm_relu_max_pool2d",
       .function = [](Call& c) { return max_pool2d(normalise(c, {.relu = true}), 2); },
       .variant = "pool_apart",
       .low_inputs = 0},
      {.op = "batch_norm_untracked",
       .function =
           [](Call& c) {
             BatchNormState state;
             state.eps = c.get<double>("eps");
             return batch_norm(c.in[0], {}, {}, state);
           },
       .low_tolerance = 8},
      {.op = "layer_norm",
       .function =
           [](Call& c) {
             return layer_norm(c.in[0], last_dims(c), c.optional(1), c.optional(2), c.get<double>("eps"));
           },
       .low_tolerance = 8},
      {.op = "rms_norm",
       .function = [](Call& c) { return rms_norm(c.in[0], last_dims(c), c.optional(1), optional_eps(c)); },
       .low_tolerance = 8},
      {.op = "group_norm",
       .function =
           [](Call& c) {
             return group_norm(c.in[0], c.get<std::int64_t>("groups"), c.optional(1), c.optional(2),
                               c.get<double>("eps"));
           },
       .low_tolerance = 8},
      {.op = "instance_norm",
       .function = [](Call& c) { return instance_norm(c.in[0], c.optional(1), c.optional(2), c.get<double>("eps")); },
       .low_tolerance = 8},
  };
}

}  // namespace tandem::testing

// Makes parameters for tests of optimizers on a GPU.
#pragma once

#include <tandem/core/backend/backend.h>
#include <tandem/core/ops.h>
#include <tandem/optim/graphed_step.h>
#include <tandem/optim/optimizer.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "conformance/compare.h"

namespace tandem::testing {

// Parameters on one device, with gradients and three kinds of state. The segments are adjacent in memory.
struct Parameters {
  Array values, gradients, states[3], counts;
  std::vector<UpdateSegment> segments;

  Parameters(const std::vector<std::int64_t>& sizes, Device device) {
    std::int64_t total = 0;
    for (const auto size : sizes) total += size;
    values = numbers({total}, 1).to(device);
    gradients = numbers({total}, 2).to(device);
    for (int i = 0; i < 3; ++i) {
      const Array random = numbers({total}, 3 + i);
      states[i] = ops::zip(functors::Mul{}, random, random).to(device);  // squares, because rules take roots
    }
    counts = ops::full({static_cast<std::int64_t>(sizes.size())}, 3).to(device);
    const auto at = [](const Array& a, std::int64_t offset) { return static_cast<float*>(a.raw()) + offset; };
    std::int64_t offset = 0, number = 0;
    for (const auto size : sizes) {
      segments.push_back({at(values, offset),
                          at(gradients, offset),
                          {at(states[0], offset), at(states[1], offset), at(states[2], offset)},
                          at(counts, number++),
                          size,
                          false});
      offset += size;
    }
  }
  void step(const UpdateRule& rule) { backend(values.device()).update(segments, rule); }
};

// Sizes near the number of elements that a block updates. Some are odd, so that most segments are not aligned.
inline const std::vector<std::int64_t> sizes = {1, 5, 2047, 2048, 2049, 0, 6000, 31};

inline Tensor weight_with_gradient() {
  Tensor weight(numbers({300}, 1).to(gpu), true);
  weight.set_grad(numbers({300}, 2).to(gpu));
  return weight;
}

// Expects that changed options of any kind reach a recorded step, and that no step runs unrecorded or is recorded
// again.
template <class Optimizer, class Options>
void expect_options_reach_a_recorded_step(Options options, const std::vector<optim::NamedOption>& changes) {
  const Tensor plain = weight_with_gradient(), graphed = weight_with_gradient();
  Optimizer plain_optimizer({{"weight", plain}}, options), optimizer({{"weight", graphed}}, options);
  int calls = 0;
  GraphedStep step(gpu, [&](const std::vector<Array>&) {
    ++calls;
    optimizer.step();
    return graphed.value();
  });
  for (int i = 0; i < 8; ++i) {
    if (i == 5) {
      plain_optimizer.set_group_options(0, changes);
      optimizer.set_group_options(0, changes);
    }
    if (i == 7) {
      plain_optimizer.set_lr(0.5);
      optimizer.set_lr(0.5);
    }
    plain_optimizer.step();
    step({});
    EXPECT_EQ(plain.value().to_vector<float>(), graphed.value().to_vector<float>())
        << optimizer.name() << ", step " << i;
  }
  EXPECT_EQ(calls, 4);
}

}  // namespace tandem::testing

// Small networks and endless data sets, which are the same on every rank.
#pragma once

#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>

#include <cstdint>

namespace tandem::testing {

// The number at `index` of a fixed random-looking sequence in [-1, 1).
inline float noise(std::int64_t index) {
  const auto words = philox({static_cast<std::uint32_t>(index), 0, 0, 0}, {7, 7});
  return static_cast<float>(static_cast<std::int32_t>(words[0])) * 0x1p-31f;
}

// An array of numbers of that sequence, beginning at index `begin`.
inline Array noise_array(const Shape& shape, std::int64_t begin) {
  Array result = Array::empty(shape);
  for (std::int64_t i = 0; i < result.numel(); ++i) result.data<float>()[i] = noise(begin + i);
  return result;
}

// Samples begin .. begin + count - 1 of an endless data set of 8x8 images.
struct Samples {
  Samples(std::int64_t begin, std::int64_t count)
      : images(noise_array({count, 1, 8, 8}, begin * 64)), labels(Array::empty({count}, DType::i64)) {
    for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = (begin + i) * 7 % 10;
  }
  Array images, labels;
};

// A network that classifies those images.
inline nn::Sequential plain_network() {
  return nn::Sequential{nn::Conv2d(1, 4, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 10)};
}

inline nn::Sequential network_with_batch_norm() {
  return nn::Sequential{nn::Conv2d(1, 4, 3, {.padding = 1}),
                        nn::BatchNorm2d(4),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 10)};
}

// A network with two branches: (N, 2) -> (N, 1). The second branch is optional. If it is not used, its parameters get
// no gradient.
struct Branches : nn::Module {
  nn::Linear& always = add("always", nn::Linear(2, 1));
  nn::Linear& sometimes = add("sometimes", nn::Linear(2, 1));
  bool both = true;

  Tensor forward(const Tensor& x) override { return both ? always(x) + sometimes(x) : always(x); }
};

}  // namespace tandem::testing

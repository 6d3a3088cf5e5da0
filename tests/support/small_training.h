// Small networks and data sets, which are the same on every rank.
#pragma once

#include <tandem/data/array_dataset.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>

#include <cstdint>

namespace tandem::testing {

// The number at `index` of a fixed random-looking sequence in [-1, 1).
float noise(std::int64_t index);

// An array of numbers of that sequence, beginning at index `begin`.
Array noise_array(const Shape& shape, std::int64_t begin);

// Samples begin .. begin + count - 1 of an endless data set of 8x8 images.
struct Samples {
  Samples(std::int64_t begin, std::int64_t count);
  Array images, labels;
};

// The first fifty samples, for tests of whole training runs.
const data::ArrayDataset& fifty_samples();

// A network that classifies those images.
nn::Sequential plain_network();

nn::Sequential network_with_batch_norm();

// A network with two branches: (N, 2) -> (N, 1). The second branch is optional. If it is not used, its parameters get
// no gradient.
struct Branches : nn::Module {
  nn::Linear& always = add("always", nn::Linear(2, 1));
  nn::Linear& sometimes = add("sometimes", nn::Linear(2, 1));
  bool both = true;

  Branches();
  Tensor forward(const Tensor& x) override;
};

}  // namespace tandem::testing

// Small networks and endless data for them, the same on every rank.
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

// Samples begin .. begin + count - 1 of an endless data set of 8x8 images.
struct Samples {
  Samples(std::int64_t begin, std::int64_t count)
      : images(Array::empty({count, 1, 8, 8})), labels(Array::empty({count}, DType::i64)) {
    for (std::int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = noise(begin * 64 + i);
    for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = (begin + i) * 7 % 10;
  }
  Array images, labels;
};

// Classifiers of those images.
inline nn::Sequential plain_network() {
  return nn::Sequential{nn::Conv2d(1, 4, {.kernel_size = 3, .padding = 1}), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 10)};
}

inline nn::Sequential network_with_batch_norm() {
  return nn::Sequential{nn::Conv2d(1, 4, {.kernel_size = 3, .padding = 1}),
                        nn::BatchNorm2d(4),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 10)};
}

}  // namespace tandem::testing

#include <tandem/core/random/random.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/pooling.h>

#include <support/small_training.h>

namespace tandem::testing {

float noise(std::int64_t index) {
  const auto words = philox({static_cast<std::uint32_t>(index), 0, 0, 0}, {7, 7});
  return static_cast<float>(static_cast<std::int32_t>(words[0])) * 0x1p-31f;
}

Array noise_array(const Shape& shape, std::int64_t begin) {
  Array result = Array::empty(shape);
  for (std::int64_t i = 0; i < result.numel(); ++i) result.data<float>()[i] = noise(begin + i);
  return result;
}

Samples::Samples(std::int64_t begin, std::int64_t count)
    : images(noise_array({count, 1, 8, 8}, begin * 64)), labels(Array::empty({count}, DType::i64)) {
  for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = (begin + i) * 7 % 10;
}

const data::ArrayDataset& fifty_samples() {
  static const data::ArrayDataset all = [] {
    const Samples some(0, 50);
    return data::ArrayDataset(some.images, some.labels);
  }();
  return all;
}

nn::Sequential plain_network() {
  return nn::Sequential{nn::Conv2d(1, 4, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 10)};
}

nn::Sequential network_with_batch_norm() {
  return nn::Sequential{nn::Conv2d(1, 4, 3, {.padding = 1}),
                        nn::BatchNorm2d(4),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 10)};
}

Branches::Branches() = default;

Tensor Branches::forward(const Tensor& x) { return both ? always(x) + sometimes(x) : always(x); }

}  // namespace tandem::testing

#include <tandem/nn/init.h>

#include <cmath>

namespace tandem::nn::init {

Array uniform(const Shape& shape, double bound, Generator& generator) {
  std::vector<float> values(shape.product());
  for (auto& v : values) v = generator.uniform(static_cast<float>(-bound), static_cast<float>(bound));
  return Array::from(values, shape);
}

std::int64_t fan_in(const Shape& weight) {
  TANDEM_CHECK(weight.rank() >= 2, "fan_in: a weight has at least 2 dimensions, got ", weight);
  return weight[0] == 0 ? 0 : weight.product() / weight[0];
}

Array kaiming_uniform(const Shape& shape, Generator& generator) {
  // In PyTorch's order of operations, so that the bound is the same to the bit.
  const double gain = std::sqrt(2.0 / (1 + 5.0));
  const double std = gain / std::sqrt(static_cast<double>(fan_in(shape)));
  return uniform(shape, std::sqrt(3.0) * std, generator);
}

}  // namespace tandem::nn::init

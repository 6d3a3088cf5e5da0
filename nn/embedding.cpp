#include <tandem/core/random.h>
#include <tandem/nn/embedding.h>

#include <cmath>
#include <numbers>

namespace tandem::nn {

namespace {

// N(0, 1) in PyTorch's order of draws: sixteen numbers give sixteen (Box and Muller), the last sixteen are drawn anew where
// the size is no multiple; fewer than sixteen come in pairs from draws in double precision.
Array standard_normal(const Shape& shape, Generator& generator) {
  constexpr double circle = 2 * std::numbers::pi;
  std::vector<float> values(static_cast<std::size_t>(shape.product()));
  const std::size_t n = values.size();
  if (n < 16) {
    for (std::size_t i = 0; i < n; i += 2) {
      const double angle = circle * generator.uniform(0.0, 1.0);
      const double radius = std::sqrt(-2 * std::log1p(-generator.uniform(0.0, 1.0)));
      values[i] = static_cast<float>(radius * std::cos(angle));
      if (i + 1 < n) values[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
    return Array::from(values, shape);
  }
  const auto draw = [&](float* begin, const float* end) {
    while (begin != end) *begin++ = generator.uniform(0.0f, 1.0f);
  };
  const auto transform = [](float* sixteen) {
    for (int i = 0; i < 8; ++i) {
      const float radius = std::sqrt(-2 * std::log(1 - sixteen[i])),
                  angle = static_cast<float>(circle) * sixteen[i + 8];
      sixteen[i] = radius * std::cos(angle);
      sixteen[i + 8] = radius * std::sin(angle);
    }
  };
  float* const data = values.data();
  draw(data, data + n);
  for (std::size_t i = 0; i + 16 <= n; i += 16) transform(data + i);
  if (n % 16 != 0) {
    draw(data + n - 16, data + n);
    transform(data + n - 16);
  }
  return Array::from(values, shape);
}

}  // namespace

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     std::optional<std::int64_t> padding_idx)
    : padding_idx(padding_idx) {
  TANDEM_CHECK(num_embeddings > 0 && embedding_dim > 0, "Embedding: sizes must be positive, got ",
               num_embeddings, " and ", embedding_dim);
  TANDEM_CHECK(!padding_idx || (-num_embeddings <= *padding_idx && *padding_idx < num_embeddings),
               "Embedding: padding_idx ", padding_idx.value_or(0), " is none of the ", num_embeddings,
               " rows");
  Array values = standard_normal({num_embeddings, embedding_dim}, default_generator());
  if (padding_idx) values.select(0, *padding_idx).fill(0);
  weight = add_parameter("weight", std::move(values));
}

}  // namespace tandem::nn

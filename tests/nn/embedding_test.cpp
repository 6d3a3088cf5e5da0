#include <tandem/core/random/random.h>
#include <tandem/nn/embedding.h>
#include <tandem/nn/layers.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;

TEST(Embedding, StartsFromPyTorchsNumbers) {
  // torch.manual_seed(0); torch.nn.Embedding(5, 4).weight; torch.nn.Embedding(2, 3).weight
  const std::vector<float> twenty{-1.12584f,   -1.15236f,   -0.2505786f, -0.4338788f, 0.5988395f,
                                  -1.555095f,  -0.3413604f, 1.853006f,   0.4680964f,  -0.1577124f,
                                  1.44366f,    0.2660494f,  1.389366f,   1.586334f,   0.9462984f,
                                  -0.8436767f, 0.9318266f,  1.259009f,   2.004981f,   0.0537369f};
  const std::vector<float> six{-0.8919953f, -1.509108f, 0.3703935f, 1.456503f, 0.9398099f, 0.7748488f};
  manual_seed(0);
  const auto large = nn::Embedding(5, 4).weight.value().to_vector<float>();
  for (std::size_t i = 0; i < twenty.size(); ++i) EXPECT_NEAR(large[i], twenty[i], 2e-6) << i;
  const auto small = nn::Embedding(2, 3).weight.value().to_vector<float>();
  for (std::size_t i = 0; i < six.size(); ++i) EXPECT_NEAR(small[i], six[i], 2e-6) << i;
}

TEST(Embedding, LooksUpAndLearns) {
  nn::Embedding table(5, 3, {.padding_idx = -4});
  EXPECT_EQ(table.parameters().at(0).name, "weight");
  EXPECT_EQ(table.weight.value().select(0, 1).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  const Array index = Array::from(std::vector<std::int64_t>{1, 4, 4, 0}, {2, 2});
  const Tensor y = table(index);
  ASSERT_EQ(y.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(y.value().select(0, 1).select(0, 0).to_vector<float>(),
            table.weight.value().select(0, 4).to_vector<float>());
  y.backward({.gradient = counting({2, 2, 3})});
  EXPECT_EQ(table.weight.grad().to_vector<float>(),
            (std::vector<float>{9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 11, 13}));
  EXPECT_ERROR(nn::Embedding(5, 3, {.padding_idx = 5}), "padding_idx 5", "5 rows");
  EXPECT_ERROR(nn::Embedding(0, 3), "positive");
  EXPECT_ERROR(table(counting({2})), "embedding", "i64 or i32", "f32");
}

TEST(Layers, OfOtherShape) {
  const Array x = counting({2, 3, 4});
  EXPECT_EQ(nn::Flatten()(x).shape(), (Shape{2, 12}));
  EXPECT_EQ(nn::Flatten(0, 1)(x).shape(), (Shape{6, 4}));
  EXPECT_EQ(nn::Unflatten(-1, {2, -1})(x).shape(), (Shape{2, 3, 2, 2}));
  EXPECT_EQ(nn::Identity()(x).value().raw(), x.raw());
}

}  // namespace
}  // namespace tandem

// Parameters of nn::MultiheadAttention; what it computes is in the table of operations.
#include <tandem/core/random.h>
#include <tandem/nn/attention.h>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(MultiheadAttention, StartsWithPyTorchsParameters) {
  manual_seed(0);
  const nn::MultiheadAttention attention(8, 2);
  struct Expected {
    const char* name;
    Shape shape;
    float first, second, last;  // of torch.manual_seed(0), to the bit
  };
  const Expected all[] = {
      {"in_proj_weight", {24, 8}, 0x1.5c866ep-3f, 0x1.6f6208p-2f, 0x1.5452b2p-2f},
      {"in_proj_bias", {24}, 0, 0, 0},
      {"out_proj.weight", {8, 8}, -0x1.5af244p-9f, 0x1.846d38p-3f, 0x1.b57f70p-4f},
      {"out_proj.bias", {8}, 0, 0, 0},
  };
  const auto parameters = attention.parameters();
  ASSERT_EQ(parameters.size(), std::size(all));
  for (std::size_t i = 0; i < std::size(all); ++i) {
    const auto values = parameters[i].tensor.value().to_vector<float>();
    EXPECT_EQ(parameters[i].name, all[i].name);
    EXPECT_EQ(parameters[i].tensor.shape(), all[i].shape) << all[i].name;
    EXPECT_EQ(values[0], all[i].first) << all[i].name;
    EXPECT_EQ(values[1], all[i].second) << all[i].name;
    EXPECT_EQ(values.back(), all[i].last) << all[i].name;
  }
}

TEST(MultiheadAttention, NeedsNoBias) {
  const nn::MultiheadAttention attention(4, 2, {.bias = false});
  EXPECT_EQ(attention.parameters().size(), 2u);
  EXPECT_FALSE(attention.in_proj_bias.defined());
}

}  // namespace
}  // namespace tandem

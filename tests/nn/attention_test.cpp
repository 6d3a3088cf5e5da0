// Parameters of nn::MultiheadAttention and nn::Bilinear. The table of operations tests their results.
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>
#include <tandem/nn/attention.h>

#include <gtest/gtest.h>

namespace tandem {
namespace {

struct Expected {
  const char* name;
  Shape shape;
  float first, second, last;  // after torch.manual_seed(0), bit for bit
};

void expect_parameters(const nn::Module& module, const std::vector<Expected>& all) {
  const auto parameters = module.parameters();
  ASSERT_EQ(parameters.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto values = parameters[i].tensor.value().to_vector<float>();
    EXPECT_EQ(parameters[i].name, all[i].name);
    EXPECT_EQ(parameters[i].tensor.shape(), all[i].shape) << all[i].name;
    EXPECT_EQ(values[0], all[i].first) << all[i].name;
    EXPECT_EQ(values[1], all[i].second) << all[i].name;
    EXPECT_EQ(values.back(), all[i].last) << all[i].name;
  }
}

TEST(MultiheadAttention, StartsWithPyTorchsParameters) {
  manual_seed(0);
  expect_parameters(nn::MultiheadAttention(8, 2),
                    {{"in_proj_weight", {24, 8}, 0x1.5c866ep-3f, 0x1.6f6208p-2f, 0x1.5452b2p-2f},
                     {"in_proj_bias", {24}, 0, 0, 0},
                     {"out_proj.weight", {8, 8}, -0x1.5af244p-9f, 0x1.846d38p-3f, 0x1.b57f70p-4f},
                     {"out_proj.bias", {8}, 0, 0, 0}});
}

TEST(MultiheadAttention, HasAWeightForEachWhereSizesDiffer) {
  manual_seed(0);
  expect_parameters(nn::MultiheadAttention(8, 2, {.kdim = 4, .vdim = 6}),
                    {{"q_proj_weight", {8, 8}, 0x1.ece394p-3f, 0x1.03c76cp-1f, -0x1.01da00p-4f},
                     {"k_proj_weight", {8, 4}, 0x1.41fabap-6f, -0x1.f3b90cp-5f, 0x1.10c266p-2f},
                     {"v_proj_weight", {8, 6}, -0x1.2daf1ap-1f, -0x1.69edcap-5f, 0x1.5622c4p-4f},
                     {"in_proj_bias", {24}, 0, 0, 0},
                     {"out_proj.weight", {8, 8}, -0x1.5af244p-9f, 0x1.846d38p-3f, 0x1.b57f70p-4f},
                     {"out_proj.bias", {8}, 0, 0, 0}});
}

TEST(Bilinear, StartsWithPyTorchsParameters) {
  manual_seed(0);
  nn::Bilinear layer(3, 4, 2);
  expect_parameters(layer, {{"weight", {2, 3, 4}, -0x1.1b47d0p-8f, 0x1.3d2626p-2f, 0x1.ba682ap-2f},
                            {"bias", {2}, -0x1.7d2bb4p-4f, 0x1.f476cap-5f, 0x1.f476cap-5f}});
  EXPECT_EQ(layer(Tensor(ops::ones({5, 3})), Tensor(ops::ones({5, 4}))).shape(), (Shape{5, 2}));
}

TEST(MultiheadAttention, IsCalledWithQueryKeyAndValue) {
  nn::MultiheadAttention attention(4, 2);
  const Tensor query(ops::randn({3, 1, 4})), other(ops::randn({5, 1, 4}));
  int calls = 0;
  const auto hook = attention.on_forward([&](nn::Module&, const Tensor&) { ++calls; });
  const auto [output, weights] = attention(query, other, other);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(weights.shape(), (Shape{1, 3, 5}));
  EXPECT_EQ(output.value().to_vector<float>(),
            attention.forward(query, other, other).output.value().to_vector<float>());
  EXPECT_FALSE(attention(query, other, other, {.need_weights = false}).weights.defined());
  EXPECT_EQ(attention(query).shape(), query.shape());
}

TEST(MultiheadAttention, NeedsNoBias) {
  const nn::MultiheadAttention attention(4, 2, {.bias = false});
  EXPECT_EQ(attention.parameters().size(), 2u);
  EXPECT_FALSE(attention.in_proj_bias.defined());
}

}  // namespace
}  // namespace tandem

// Common mistakes with losses, norms and dropout, and results that golden values can't test.
#include <tandem/autograd/functions.h>
#include <tandem/core/ops.h>
#include <tandem/core/random/random.h>

#include <gtest/gtest.h>

#include <cmath>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::counting;

Array classes(std::vector<std::int64_t> values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(LossErrors, NameTheOperationAndTheShapes) {
  const Tensor logits(counting({2, 3}));
  EXPECT_ERROR(cross_entropy(logits, classes({0})), "cross_entropy", "(2, 3)", "(1)");
  EXPECT_ERROR(cross_entropy(logits, classes({0, 3})), "target 3 at row 1");
  EXPECT_ERROR(nll_loss(logits, classes({0, -1})), "nll_loss", "target -1 at row 1");
  EXPECT_ERROR(cross_entropy(logits, classes({0, 1}), {.weight = ops::ones({2})}), "weight", "(3)", "(2)");
  EXPECT_ERROR(cross_entropy(logits, classes({0, 1}), {.label_smoothing = 2}), "label_smoothing", "2");
  EXPECT_ERROR(cross_entropy(logits, Tensor(ops::ones({3, 2}))), "probabilities", "(2, 3)", "(3, 2)");
  EXPECT_ERROR(mse_loss(logits, Tensor(ops::ones({4}))), "mse_loss", "(2, 3)", "(4)");
  EXPECT_ERROR(mse_loss(classes({1}), classes({2})), "mse_loss", "i64");
  EXPECT_ERROR(huber_loss(logits, logits, {.delta = 0}), "huber_loss", "delta");
  EXPECT_ERROR(smooth_l1_loss(logits, logits, {.beta = -1}), "smooth_l1_loss", "beta");
  EXPECT_ERROR(binary_cross_entropy(logits, Tensor(ops::ones({3}))), "binary_cross_entropy", "(2, 3)", "(3)");
  EXPECT_ERROR(softmax(logits, 2), "2");
}

TEST(LossErrors, BinaryCrossEntropyTakesProbabilities) {
  const Tensor target(ops::ones({2, 2}));
  const auto input = [](const std::vector<float>& values) { return Tensor(Array::from(values, {2, 2})); };
  for (const auto reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    EXPECT_ERROR(binary_cross_entropy(input({0.5f, -0.25f, 1.5f, 0}), target, {.reduction = reduction}),
                 "binary_cross_entropy", "probabilities", "2 of its 4", "-0.25", "sigmoid", "with_logits");
    EXPECT_ERROR(binary_cross_entropy(input({0.5f, 0.5f, 0.5f, 1.001f}), ops::zeros({2, 2}),
                                      {.weight = ops::ones({2}), .reduction = reduction}),
                 "1 of its 4", "1.001");
    EXPECT_NO_THROW(binary_cross_entropy(input({0, 1, 0, 1}), target, {.reduction = reduction}));
    // A NaN is not the mistake of this function's caller, because it comes from an earlier operation.
    const Tensor loss = binary_cross_entropy(input({0.5f, NAN, 0.5f, 1}), target, {.reduction = reduction});
    EXPECT_TRUE(std::isnan(sum(loss).item()));
  }
}

TEST(LossErrors, AMeanOverNothingIsNaN) {
  const Tensor logits(counting({2, 3}), true);
  const Tensor loss = cross_entropy(logits, classes({-100, -100}));
  EXPECT_TRUE(std::isnan(loss.item()));
  loss.backward();
  EXPECT_EQ(logits.grad().to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_TRUE(std::isnan(mse_loss(Tensor(counting({0})), Tensor(counting({0}))).item()));
}

TEST(NormErrors, NameTheOperationAndTheShapes) {
  const Tensor x(counting({2, 6, 2}));
  EXPECT_ERROR(layer_norm(x, {3}), "layer_norm", "(2, 6, 2)", "(3)");
  EXPECT_ERROR(layer_norm(x, {2}, Tensor(ops::ones({3}))), "layer_norm", "(2)", "(3)");
  EXPECT_ERROR(group_norm(x, 4), "group_norm", "6 channels", "4 groups");
  EXPECT_ERROR(group_norm(x, 0), "group_norm", "0 groups");
  EXPECT_ERROR(instance_norm(Tensor(counting({2, 3, 1}))), "instance_norm", "(2, 3, 1)");
  EXPECT_ERROR(rms_norm(Tensor(counting({3}, DType::i64)), {3}), "rms_norm", "i64");
}

TEST(Dropout, DropsItsShareAndScalesTheRest) {
  manual_seed(4);
  const Tensor x(ops::ones({100000}), true);
  const Tensor y = dropout(x, 0.25);
  double kept = 0;
  for (const float v : y.value().to_vector<float>()) {
    EXPECT_TRUE(v == 0 || v == 1 / 0.75f);
    kept += v != 0;
  }
  EXPECT_NEAR(kept / 100000, 0.75, 0.01);
  y.backward({.gradient = ops::ones({100000})});
  EXPECT_EQ(x.grad().to_vector<float>(), y.value().to_vector<float>());
}

TEST(Dropout, RepeatsAfterManualSeedAndNotFromCallToCall) {
  const Tensor x(ops::ones({3, 67}));
  manual_seed(4);
  const auto first = dropout(x).value().to_vector<float>(), second = dropout(x).value().to_vector<float>();
  manual_seed(4);
  EXPECT_EQ(dropout(x).value().to_vector<float>(), first);
  EXPECT_NE(first, second);
}

TEST(Dropout, DropsWholeChannels) {
  manual_seed(4);
  const auto y = dropout2d(Tensor(ops::ones({8, 16, 3, 3}).channels_last())).value().to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], y[i / 9 * 9]);
  EXPECT_ERROR(dropout(Tensor(ops::ones({2})), 1.5), "dropout", "1.5");
}

}  // namespace
}  // namespace tandem

// The loss classes: defaults, options and reductions, with numbers that can be computed by hand.
#include <tandem/core/ops.h>
#include <tandem/nn/loss.h>

#include <gtest/gtest.h>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;
using testing::expect_close;

constexpr auto none = LossReduction::none, total = LossReduction::sum;

void expect_losses(const Tensor& loss, const std::vector<float>& expected) {
  expect_close(array_of(expected), loss.value().reshape({-1}), 1e-6, "loss");
}

Array classes(const std::vector<std::int64_t>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}

// The distances are 0, 2 and 3.
const Array input = array_of({1, 2, 4}), target = array_of({1, 4, 1});

TEST(Losses, MSELoss) {
  expect_losses(nn::MSELoss()(input, target), {13.0f / 3});
  expect_losses(nn::MSELoss(total)(input, target), {13});
  expect_losses(nn::MSELoss(none)(input, target), {0, 4, 9});
}

TEST(Losses, L1Loss) {
  expect_losses(nn::L1Loss()(input, target), {5.0f / 3});
  expect_losses(nn::L1Loss(total)(input, target), {5});
  expect_losses(nn::L1Loss(none)(input, target), {0, 2, 3});
}

TEST(Losses, SmoothL1Loss) {
  expect_losses(nn::SmoothL1Loss()(input, target), {4.0f / 3});
  expect_losses(nn::SmoothL1Loss({.reduction = none})(input, target), {0, 1.5f, 2.5f});
  expect_losses(nn::SmoothL1Loss({.reduction = none, .beta = 4})(input, target), {0, 0.5f, 1.125f});
  expect_losses(nn::SmoothL1Loss({.reduction = total, .beta = 0})(input, target), {5});
}

TEST(Losses, HuberLoss) {
  expect_losses(nn::HuberLoss()(input, target), {4.0f / 3});
  expect_losses(nn::HuberLoss({.reduction = none, .delta = 2})(input, target), {0, 2, 4});
  expect_losses(nn::HuberLoss({.reduction = total, .delta = 4})(input, target), {6.5f});
}

TEST(Losses, CrossEntropyLoss) {
  // The probabilities are 1/4 and 3/4, then 1/2 and 1/2.
  const Array logits = array_of({0, std::log(3.0f), 2, 2}, {2, 2});
  const Array labels = classes({1, 0});
  const float a = -std::log(0.75f), b = std::log(2.0f), c = -std::log(0.25f);
  expect_losses(nn::CrossEntropyLoss()(logits, labels), {(a + b) / 2});
  expect_losses(nn::CrossEntropyLoss({.reduction = total})(logits, labels), {a + b});
  expect_losses(nn::CrossEntropyLoss({.reduction = none})(logits, labels), {a, b});
  expect_losses(nn::CrossEntropyLoss({.weight = array_of({1, 3})})(logits, labels), {(3 * a + b) / 4});
  expect_losses(nn::CrossEntropyLoss({.ignore_index = 0})(logits, labels), {a});
  expect_losses(nn::CrossEntropyLoss({.reduction = none, .label_smoothing = 0.5})(logits, labels),
                {0.75f * a + 0.25f * c, b});
  // Targets may be probabilities.
  expect_losses(nn::CrossEntropyLoss({.reduction = none})(logits, array_of({0.5f, 0.5f, 1, 0}, {2, 2})),
                {(a + c) / 2, b});
}

TEST(Losses, NLLLoss) {
  const Array log_p = array_of({-1, -2, -3, -4, -5, -6}, {3, 2});
  const Array labels = classes({1, 0, 1});
  expect_losses(nn::NLLLoss()(log_p, labels), {11.0f / 3});
  expect_losses(nn::NLLLoss({.reduction = total})(log_p, labels), {11});
  expect_losses(nn::NLLLoss({.weight = array_of({2, 1}), .reduction = none})(log_p, labels), {2, 6, 6});
  expect_losses(nn::NLLLoss({.weight = array_of({2, 1})})(log_p, labels), {14.0f / 4});
  expect_losses(nn::NLLLoss({.ignore_index = 1})(log_p, labels), {3});
}

TEST(Losses, BCELoss) {
  const Array p = array_of({0.5f, 0.25f, 0}), truth = array_of({1, 0, 1});
  const float a = std::log(2.0f), b = -std::log(0.75f);
  expect_losses(nn::BCELoss()(p, truth), {(a + b + 100) / 3});  // a logarithm is at least -100
  expect_losses(nn::BCELoss({.reduction = none})(p, truth), {a, b, 100});
  expect_losses(nn::BCELoss({.weight = array_of({1, 2, 0}), .reduction = total})(p, truth), {a + 2 * b});
}

TEST(Losses, BCEWithLogitsLoss) {
  const Array logits = array_of({0, std::log(3.0f), 200}), truth = array_of({1, 0, 0});
  const float a = std::log(2.0f), b = -std::log(0.25f);
  expect_losses(nn::BCEWithLogitsLoss()(logits, truth), {(a + b + 200) / 3});
  expect_losses(nn::BCEWithLogitsLoss({.reduction = none})(logits, truth), {a, b, 200});
  expect_losses(nn::BCEWithLogitsLoss({.weight = array_of({1, 2, 0}), .reduction = total})(logits, truth), {a + 2 * b});
  expect_losses(nn::BCEWithLogitsLoss({.reduction = none, .pos_weight = array_of({4})})(logits, truth),
                {4 * a, b, 200});
}

TEST(Losses, KLDivLoss) {
  const Array log_q = array_of({std::log(0.5f), std::log(0.5f), std::log(0.25f), std::log(0.75f)}, {2, 2});
  const Array p = array_of({1, 0, 0.25f, 0.75f}, {2, 2});
  const float a = std::log(2.0f);
  expect_losses(nn::KLDivLoss()(log_q, p), {a / 4});
  expect_losses(nn::KLDivLoss({.reduction = none})(log_q, p), {a, 0, 0, 0});
  expect_losses(nn::KLDivLoss({.batchmean = true})(log_q, p), {a / 2});
  expect_losses(nn::KLDivLoss({.reduction = none, .log_target = true})(array_of({-1, -2}),
                                                                       array_of({std::log(0.5f), std::log(0.25f)})),
                {0.5f * (1 - a), 0.25f * (2 - 2 * a)});
}

TEST(Losses, GiveGradientsOfTheirOptions) {
  const Tensor x(input.clone(), true);
  const nn::MSELoss squares(total);
  squares(x, target).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, -4, 6}));
  Tensor(x).zero_grad();
  nn::HuberLoss({.reduction = total, .delta = 2})(x, target).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, -2, 2}));
}

TEST(Losses, DoNotBroadcast) {
  const Tensor x(testing::counting({3, 1})), target(testing::counting({3}));
  EXPECT_ERROR(mse_loss(x, target), "mse_loss", "(3, 1)", "(3)");
  EXPECT_ERROR(l1_loss(x, target), "l1_loss", "(3, 1)", "(3)");
  EXPECT_ERROR(smooth_l1_loss(x, target), "smooth_l1_loss", "(3, 1)", "(3)");
  EXPECT_ERROR(huber_loss(x, target), "huber_loss", "(3, 1)", "(3)");
  EXPECT_ERROR(kl_div(x, target), "kl_div", "(3, 1)", "(3)");
}

TEST(Losses, NameTheFunctionThatRefuses) {
  EXPECT_ERROR(nn::MSELoss()(input, ops::ones({2})), "mse_loss", "(3)", "(2)");
  EXPECT_ERROR(nn::SmoothL1Loss({.beta = -1})(input, target), "smooth_l1_loss", "-1");
  EXPECT_ERROR(nn::HuberLoss({.delta = 0})(input, target), "huber_loss", "0");
  EXPECT_ERROR(nn::NLLLoss()(ops::ones({2, 3}), classes({0, 3})), "nll_loss", "3");
  EXPECT_ERROR(nn::BCELoss()(input, ops::ones({2})), "binary_cross_entropy", "(2)");
}

}  // namespace
}  // namespace tandem

#include <tandem/core/ops.h>
#include <tandem/optim/clip.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using optim::clip_grad_norm_;
using optim::clip_grad_value_;
using testing::array_of;
using Floats = std::vector<float>;

Tensor with_gradient(const Array& gradient) {
  Tensor tensor(ops::zeros(gradient.shape()), true);
  tensor.set_grad(gradient);
  return tensor;
}
Floats gradient_of(const Tensor& t) { return t.grad().to_vector<float>(); }

TEST(ClipGradNorm, EqualsPyTorch) {
  const testing::Golden golden("optimizers.safetensors");
  int count = 0;
  for (const auto& [name, options] : golden.cases()) {
    if (!options.contains("max_norm")) continue;
    ++count;
    std::vector<Tensor> parameters;
    const int tensors = options.at("count");
    for (int i = 0; i < tensors; ++i)
      parameters.push_back(with_gradient(golden[name + "/before" + std::to_string(i)].clone()));
    const auto number = [&](const char* key, const char* otherwise) {
      return std::stod(options.value(key, otherwise));
    };
    const double norm = clip_grad_norm_(parameters, number("max_norm", ""), number("norm_type", "2")).item();
    const double expected = golden[name + "/norm"].item();
    EXPECT_NEAR(norm, expected, 1e-6 * expected) << name;
    for (int i = 0; i < tensors; ++i)
      testing::expect_close(golden[name + "/after" + std::to_string(i)], parameters[i].grad(), 1e-6, name);
  }
  EXPECT_EQ(count, 7);
}

TEST(ClipGradNorm, TakesAnyLayoutAndLeavesWhatHasNone) {
  const Array odd = testing::strided(ops::full({2, 2}, 2));
  Tensor a = with_gradient(odd), none(ops::ones({3}), true);
  Tensor images(Array::empty_channels_last({1, 3, 2, 2}), true);
  images.set_grad_buffer(Array::empty_channels_last({1, 3, 2, 2}));
  images.set_grad(ops::full({1, 3, 2, 2}, 2));
  const auto version = images.grad().storage()->version();
  EXPECT_NEAR(clip_grad_norm_(std::vector<NamedTensor>{{"a", a}, {"none", none}, {"images", images}}, 4).item(), 8,
              1e-6);
  for (const float v : gradient_of(a)) EXPECT_NEAR(v, 1, 1e-6);
  for (const float v : gradient_of(images)) EXPECT_NEAR(v, 1, 1e-6);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_GT(images.grad().storage()->version(), version) << "the change must be seen";
  EXPECT_EQ(clip_grad_norm_({none}, 1).item(), 0);
  EXPECT_EQ(clip_grad_norm_(std::vector<Tensor>{}, 1).item(), 0);
  EXPECT_NEAR(optim::grad_norm({a, images}).item(), 4, 1e-6);
}

TEST(ClipGradNorm, NonFiniteNorms) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::nanf("")}) {
    Tensor a = with_gradient(array_of({1, bad, 2}));
    EXPECT_ERROR(clip_grad_norm_({a}, 1, 2, true), "clip_grad_norm_", "nonfinite");
    EXPECT_EQ(gradient_of(a)[0], 1);
    EXPECT_FALSE(std::isfinite(clip_grad_norm_({a}, 1).item()));
    const auto clipped = gradient_of(a);
    EXPECT_TRUE(std::isnan(clipped[1]));
    if (std::isinf(bad)) EXPECT_EQ(clipped[0], 0);
    else EXPECT_TRUE(std::isnan(clipped[0]));
  }
}

TEST(ClipGradNorm, ManyNumbersOnSeveralThreads) {
  constexpr std::int64_t n = 1'000'003;
  Tensor a = with_gradient(ops::full({n}, 0.5)), b = with_gradient(ops::full({n}, -0.5));
  const double norm = std::sqrt(2.0 * n) / 2;
  EXPECT_NEAR(clip_grad_norm_({a, b}, 1).item(), norm, 1e-6 * norm);
  EXPECT_NEAR(gradient_of(b).back(), -0.5 / norm, 1e-9);
  EXPECT_NEAR(optim::grad_norm({a, b}, std::numeric_limits<double>::infinity()).item(), 0.5 / norm, 1e-9);
}

TEST(ClipGradValue, KeepsNaNs) {
  Tensor a = with_gradient(array_of({-3, -0.5f, 0, 0.5f, 3, std::nanf("")}));
  clip_grad_value_({a}, 1);
  const auto clipped = gradient_of(a);
  EXPECT_EQ(Floats(clipped.begin(), clipped.end() - 1), (Floats{-1, -0.5f, 0, 0.5f, 1}));
  EXPECT_TRUE(std::isnan(clipped.back()));
}

TEST(ClipGrad, NonsenseIsRefused) {
  Tensor a = with_gradient(array_of({1}));
  EXPECT_ERROR(clip_grad_norm_({a}, -1), "max_norm", "-1");
  EXPECT_ERROR(clip_grad_norm_({a}, 1, 0), "norm_type", "0");
  EXPECT_ERROR(clip_grad_norm_({a}, 1, std::nan("")), "norm_type");
  EXPECT_ERROR(clip_grad_value_({a}, -1), "clip_value", "-1");
  Tensor wide(ops::ones({2}, DType::f64), true);
  wide.set_grad(ops::ones({2}, DType::f64));
  EXPECT_ERROR(clip_grad_norm_({wide}, 1), "f64", "f32", "(2)");
}

}  // namespace
}  // namespace tandem

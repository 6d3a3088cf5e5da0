// torch.nn.init's functions give the same numbers with the same seed.
#include <tandem/core/ops.h>
#include <tandem/nn/init.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "support/arrays.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

namespace init = nn::init;
using testing::expect_close;
using testing::expect_same;

struct Case {
  std::function<void(const Tensor&)> run;
  double tolerance = 0;  // 0: bitwise identical
};

// The cases of make_init_functions in tests/golden/make_golden.py. Normal numbers are computed with log, sin and cos,
// whose last bit depends on the library.
const std::map<std::string, Case>& cases() {
  using init::FanMode;
  using init::Nonlinearity;
  const double a = std::sqrt(5.0);
  static const std::map<std::string, Case> all{
      {"uniform", {[](auto& t) { init::uniform_(t, -0.3, 1.7); }}},
      {"uniform_f64", {[](auto& t) { init::uniform_(t, -0.3, 1.7); }}},
      {"normal", {[](auto& t) { init::normal_(t, 0.5, 2); }, 1e-6}},
      {"normal_f64", {[](auto& t) { init::normal_(t, 0.5, 2); }, 1e-14}},
      {"trunc_normal", {[](auto& t) { init::trunc_normal_(t, 0, 0.02); }, 1e-6}},
      {"trunc_normal_tight", {[](auto& t) { init::trunc_normal_(t, 0.1, 1, -0.5, 0.7); }, 1e-6}},
      {"trunc_normal_tail", {[](auto& t) { init::trunc_normal_(t, 0, 1, 1.5, 4); }}},
      {"xavier_uniform", {[](auto& t) { init::xavier_uniform_(t, 5.0 / 3); }}},
      {"xavier_normal", {[](auto& t) { init::xavier_normal_(t); }, 1e-6}},
      {"kaiming_uniform", {[](auto& t) { init::kaiming_uniform_(t); }}},
      {"kaiming_uniform_linear", {[a](auto& t) { init::kaiming_uniform_(t, {.a = a}); }}},
      {"kaiming_uniform_fan_out",
       {[](auto& t) { init::kaiming_uniform_(t, {.mode = FanMode::fan_out, .nonlinearity = Nonlinearity::relu}); }}},
      {"kaiming_uniform_tanh", {[](auto& t) { init::kaiming_uniform_(t, {.nonlinearity = Nonlinearity::tanh}); }}},
      {"kaiming_uniform_selu", {[](auto& t) { init::kaiming_uniform_(t, {.nonlinearity = Nonlinearity::selu}); }}},
      {"kaiming_normal",
       {[](auto& t) { init::kaiming_normal_(t, {.mode = FanMode::fan_out, .nonlinearity = Nonlinearity::relu}); },
        1e-6}},
      {"eye", {[](auto& t) { init::eye_(t); }}},
      {"orthogonal", {[](auto& t) { init::orthogonal_(t, 2); }, 1e-5}},
  };
  return all;
}

TEST(Init, EqualsPyTorchs) {
  const testing::Golden golden("init_functions.safetensors");
  std::map<std::string, int> found;
  for (const auto& [key, expected] : golden.arrays()) {
    const std::string name = key.substr(0, key.find('/'));
    ASSERT_TRUE(cases().count(name)) << key;
    ++found[name];
    const Case& c = cases().at(name);
    const Tensor tensor(ops::full(expected.shape(), 99, expected.dtype()), true);
    manual_seed(7);
    c.run(tensor);
    if (c.tolerance == 0) expect_same(expected, tensor.value(), key);
    else expect_close(expected, tensor.value(), c.tolerance, key);
  }
  EXPECT_EQ(found.size(), cases().size());
}

TEST(Init, DrawsFromTheGivenGenerator) {
  Generator generator(7), same(7);
  const Tensor a(ops::zeros({20})), b(ops::zeros({20})), c(ops::zeros({20}));
  init::normal_(a, 0, 1, generator);
  init::normal_(b, 0, 1, same);
  init::normal_(c, 0, 1, generator);
  expect_same(a.value(), b.value(), "equal seeds");
  EXPECT_NE(a.value().to_vector<float>(), c.value().to_vector<float>());
}

TEST(Init, WritesParametersOfAnyDtypeInPlace) {
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
    const Tensor parameter(ops::full({4, 6}, 9, dtype), true);
    const void* const memory = parameter.value().raw();
    for (const auto& f : std::vector<std::function<void(const Tensor&)>>{
             [](auto& t) { init::uniform_(t); }, [](auto& t) { init::trunc_normal_(t); },
             [](auto& t) { init::orthogonal_(t); }, [](auto& t) { init::kaiming_normal_(t); },
             [](auto& t) { init::eye_(t); }}) {
      f(parameter);
      EXPECT_EQ(parameter.value().raw(), memory);
      EXPECT_EQ(parameter.dtype(), dtype);
      EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad());
      for (const double v : parameter.value().to_vector<double>()) EXPECT_LE(std::abs(v), 6);
    }
  }
  const Tensor constant(ops::zeros({2}));
  init::constant_(constant, 3);
  EXPECT_EQ(constant.value().to_vector<float>(), (std::vector<float>{3, 3}));
  init::ones_(constant);
  EXPECT_EQ(constant.value().to_vector<float>(), (std::vector<float>{1, 1}));
  init::zeros_(constant);
  EXPECT_EQ(constant.value().to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(Init, OrthogonalVectorsAreOrthonormal) {
  for (const Shape& shape : {Shape{5, 40}, Shape{40, 5}, Shape{30, 30}}) {
    const Tensor tensor(ops::zeros(shape, DType::f64));
    init::orthogonal_(tensor);
    const Array m = shape[0] < shape[1] ? tensor.value() : tensor.value().transpose(0, 1).contiguous();
    const auto v = m.to_vector<double>();
    const auto rows = static_cast<std::size_t>(m.dim(0)), length = static_cast<std::size_t>(m.dim(1));
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (std::size_t k = 0; k < length; ++k) dot += v[i * length + k] * v[j * length + k];
        EXPECT_NEAR(dot, i == j, 1e-12);
      }
    }
  }
}

TEST(Init, TruncatedNormalStaysInside) {
  const Tensor tensor(ops::zeros({1000}));
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{-2, 2}, {-0.1, 0.1}, {3, 8}, {-9, -2.5}}) {
    init::trunc_normal_(tensor, 0, 1, low, high);
    for (const float v : tensor.value().to_vector<float>()) {
      EXPECT_GE(v, static_cast<float>(low));
      EXPECT_LE(v, static_cast<float>(high));
    }
  }
}

TEST(Init, Gains) {
  using init::Nonlinearity;
  EXPECT_EQ(init::calculate_gain(Nonlinearity::linear), 1);
  EXPECT_EQ(init::calculate_gain(Nonlinearity::sigmoid), 1);
  EXPECT_EQ(init::calculate_gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_EQ(init::calculate_gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_EQ(init::calculate_gain(Nonlinearity::leaky_relu), std::sqrt(2.0 / (1 + 0.01 * 0.01)));
  EXPECT_EQ(init::calculate_gain(Nonlinearity::leaky_relu, 0.2), std::sqrt(2.0 / (1 + 0.2 * 0.2)));
  EXPECT_EQ(init::calculate_gain(Nonlinearity::selu), 0.75);
}

TEST(Init, RefusesNonsense) {
  const Tensor vector(ops::zeros({3})), matrix(ops::zeros({3, 2})), counts(ops::zeros({3}, DType::i64));
  EXPECT_ERROR(init::uniform_(vector, 2, 1), "uniform_", "2", "1");
  EXPECT_ERROR(init::uniform_(counts), "uniform_", "i64");
  EXPECT_ERROR(init::normal_(vector, 0, -1), "normal_", "-1");
  EXPECT_ERROR(init::trunc_normal_(vector, 0, 1, 2, 2), "trunc_normal_", "low < high");
  EXPECT_ERROR(init::eye_(vector), "eye_", "(3)");
  EXPECT_ERROR(init::xavier_uniform_(vector), "2 dimensions", "(3)");
  EXPECT_ERROR(init::kaiming_normal_(vector), "2 dimensions", "(3)");
  EXPECT_ERROR(init::orthogonal_(vector), "orthogonal_", "(3)");
  const Tensor empty(ops::zeros({0, 2}));
  init::xavier_normal_(empty);
  init::kaiming_uniform_(empty);
  init::orthogonal_(empty);
  init::eye_(empty);
}

}  // namespace
}  // namespace tandem

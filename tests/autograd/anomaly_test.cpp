#include <tandem/autograd/anomaly.h>
#include <tandem/autograd/functions.h>
#include <tandem/autograd/operation.h>

#include <gtest/gtest.h>

#include <limits>

#include "support/arrays.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

using testing::array_of;

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(DetectAnomaly, NamesTheFirstOperationThatGivesNaN) {
  const Tensor x(array_of({1, 0, 4, -1}, {2, 2}), true);
  const auto compute = [&] { return sum(exp(log(x) + 1)); };
  EXPECT_TRUE(std::isnan(compute().item())) << "without it nothing is said";
  {
    const DetectAnomaly detect;
    EXPECT_ERROR(compute(), "DetectAnomaly", "in the result of log", "2 of 4 numbers are not finite",
                 "the first is -inf at (0, 1)");
    EXPECT_EQ(sum(exp(x)).numel(), 1) << "what is finite passes";
  }
  compute();
  const DetectAnomaly of_nan({.infinities = false});
  EXPECT_ERROR(compute(), "in the result of log", "1 of 4 numbers is NaN", "nan at (1, 1)");
}

TEST(DetectAnomaly, SaysWhatTheInputsHadAlready) {
  const Tensor x(array_of({1, infinity}));
  const DetectAnomaly detect;
  EXPECT_ERROR(x * 2, "in the result of mul", "1 of 2 numbers is not finite, the first is inf at (1)",
               "in its input 0, 1 of 2 numbers");
  const Tensor y(array_of({0, 4}));
  EXPECT_ERROR(log_(y), "in the result of log_", "-inf at (0)");
  // Processors give NaN a sign, which has no meaning.
  EXPECT_ERROR(Tensor(array_of({-std::numeric_limits<float>::quiet_NaN()})) + 1, "the first is nan at (0)");
}

TEST(DetectAnomaly, NamesTheOperationWhoseGradientIsNotFinite) {
  const Tensor x(array_of({4, 0}), true);
  const auto loss = [&] { return sum(sqrt(x) * 2); };
  loss().backward();
  EXPECT_EQ(x.grad().to_vector<float>()[1], infinity);
  const DetectAnomaly detect;
  EXPECT_ERROR(loss().backward(), "in the gradient that sqrt gives its input 0", "1 of 2 numbers is not finite",
               "inf at (1)");
  // A failed pass leaves nothing behind.
  const Tensor y(array_of({4, 1}), true);
  sum(sqrt(y)).backward();
  EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{0.25, 0.5}));
}

TEST(DetectAnomaly, LooksAtFloatingNumbersOfAllDtypes) {
  const DetectAnomaly detect;
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16})
    EXPECT_ERROR(log(Tensor(ops::zeros({}, dtype))), "1 of 1 numbers is not finite, the first is -inf at ()");
  EXPECT_EQ(sum(Tensor(ops::ones({3}, DType::i64))).item(), 3);
  EXPECT_EQ(exp(Tensor(ops::zeros({0}))).numel(), 0);
}

}  // namespace
}  // namespace tandem

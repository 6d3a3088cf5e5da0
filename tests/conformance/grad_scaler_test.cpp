// GradScaler finds overflows on the GPU, and waits for it once.
#include <tandem/core/ops.h>
#include <tandem/optim/grad_scaler.h>
#include <tandem/optim/sgd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#ifdef TANDEM_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

namespace tandem {
namespace {

const Device cuda = Device::cuda(0);

// Returns parameters (zeros) of several shapes, one of them channels last. All elements of their gradients are `value`
// times 4, except one.
std::vector<NamedTensor> parameters_with(float value, float odd) {
  std::vector<NamedTensor> parameters;
  for (const Shape& shape : {Shape{1000}, Shape{3, 5}, Shape{2, 3, 4, 5}, Shape{}}) {
    Tensor parameter(ops::zeros(shape, DType::f32, cuda), true);
    Array gradient = ops::full(shape, 4 * value, DType::f32, cuda);
    if (shape.ndim() == 4) gradient = gradient.channels_last();
    if (shape.ndim() == 2) gradient.select(0, 2).select(0, 4).fill(odd);
    parameter.set_grad(gradient);
    parameters.push_back({std::to_string(parameters.size()), parameter});
  }
  return parameters;
}

TEST(CudaGradScaler, StepsAndDividesWhereAllIsFinite) {
  const auto parameters = parameters_with(2, 8);
  optim::SGD optimizer(parameters, {.lr = 1});
  optim::GradScaler scaler({.init_scale = 4});
  EXPECT_TRUE(scaler.step(optimizer));
  for (const auto& [name, parameter] : parameters) {
    for (const float v : parameter.grad().to_vector<float>()) ASSERT_EQ(v, 2) << parameter.shape();
    for (const float v : parameter.value().to_vector<float>()) ASSERT_EQ(v, -2) << parameter.shape();
  }
}

TEST(CudaGradScaler, SkipsWhereOneElementIsNot) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float odd : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    const auto parameters = parameters_with(2, odd);
    optim::SGD optimizer(parameters, {.lr = 1});
    optim::GradScaler scaler({.init_scale = 4});
    EXPECT_FALSE(scaler.step(optimizer));
    scaler.update();
    for (const auto& [name, parameter] : parameters)
      for (const float v : parameter.value().to_vector<float>()) ASSERT_EQ(v, 0) << parameter.shape();
    EXPECT_EQ(scaler.scale(), 2);
  }
}

#ifdef TANDEM_EMULATED_CUDA
TEST(CudaGradScaler, WaitsForTheGpuOnce) {
  optim::SGD optimizer(parameters_with(1, 1), {.lr = 1});
  optim::GradScaler scaler;
  scaler.step(optimizer);
  scaler.update();
  auto& log = emulation::driver().log;
  log.clear();
  scaler.step(optimizer);
  const auto waits =
      std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("synchronize"); });
  EXPECT_EQ(waits, 1);
}
#endif

}  // namespace
}  // namespace tandem

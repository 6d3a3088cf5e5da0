// Tests the error of spawn() if its ranks can't use a GPU because the caller has used CUDA before.
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/launch/spawn.h>

#include <gtest/gtest.h>
#include <support/alone.h>

#include <functional>
#include <string>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::alone;
using testing::gpu;

// Each test runs in a separate process that has not used the GPU yet.
class CudaForksTest : public ::testing::Test {
 protected:
  // Returns the text of the Error that spawn throws.
  static std::string error_of_ranks(const std::function<void()>& work) {
    try {
      distributed::spawn(2, [&](int) { work(); });
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(CudaForksTest, RanksThatWantAGpuAreToldThatGpusWereCountedBefore) {
  alone([] {
    ASSERT_GT(device_count(Device::Kind::cuda), 0);
    for (const auto& work : {std::function<void()>([] { backend(gpu); }),
                             std::function<void()>([] { device_count(Device::Kind::cuda); })}) {
      const std::string error = error_of_ranks(work);
      EXPECT_NE(error.find("call spawn before"), std::string::npos) << error;
    }
  });
}

TEST_F(CudaForksTest, SpawnIsRefusedAfterTheGpuWasUsed) {
  alone([] {
    ops::ones({4}, DType::f32, gpu).to_vector<float>();
    const std::string error = error_of_ranks([] { backend(gpu); });
    EXPECT_NE(error.find("call spawn before"), std::string::npos) << error;
  });
}

// Ranks that need no GPU also run after the caller has counted GPUs.
TEST_F(CudaForksTest, RanksOnTheCpuMayRunAfterGpusWereCounted) {
  alone([] {
    device_count(Device::Kind::cuda);
    const std::string error =
        error_of_ranks([] { EXPECT_EQ(ops::ones({4}, DType::f32).to_vector<float>().size(), 4u); });
    EXPECT_TRUE(error == "no error" || error.find("call spawn before") != std::string::npos) << error;
  });
}

}  // namespace
}  // namespace tandem

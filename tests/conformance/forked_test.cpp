// What spawn says when its ranks can't use a GPU, because the caller has used CUDA before.
#include <tandem/core/backend/backend.h>
#include <tandem/core/ops.h>
#include <tandem/distributed/launch/spawn.h>

#include <gtest/gtest.h>
#include <support/process.h>

#include <cstdlib>
#include <filesystem>

#include "conformance/compare.h"

namespace tandem {
namespace {

using testing::gpu;

// Each of these runs in a process of its own, in which nothing has used the GPU yet.
class CudaForksTest : public ::testing::Test {
 protected:
  void alone(const std::function<void()>& body) const {
    if (std::getenv("TANDEM_FORKED_TEST")) return body();
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const auto filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
    const auto outcome = testing::run_process({program, filter}, {{"TANDEM_FORKED_TEST", "1"}});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }

  // The Error that spawn throws.
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

// Nor do GPUs that others count disturb those that need none.
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

// test_cuda: the conformance tests on a real GPU. Without a GPU, it reports each test as not run, and the number of
// these tests at the end. Its exit code stays 0, so that a build with CUDA can be tested on any machine. A caller that
// requires a GPU must read the last line, as scripts/gpu_check does.
#include <tandem/core/device/device.h>
#include <tandem/core/device/math_mode.h>

#include <gtest/gtest.h>

#include <iostream>

namespace {

using ::testing::UnitTest;

bool has_gpu() { return tandem::device_count(tandem::Device::Kind::cuda) > 0; }

class NeedsGpu : public ::testing::Environment {
 public:
  // A skip here skips every test.
  void SetUp() override {
    if (has_gpu()) return;
    const UnitTest& all = *UnitTest::GetInstance();
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
      const auto& suite = *all.GetTestSuite(s);
      for (int t = 0; t < suite.total_test_count(); ++t) {
        const auto& test = *suite.GetTestInfo(t);
        if (test.should_run())
          std::cout << "[  SKIPPED ] " << suite.name() << '.' << test.name() << ": NOT RUN, no GPU\n";
      }
    }
    GTEST_SKIP() << "no GPU";
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tandem::set_tf32(false, false);  // f32 means f32 in the tests; the TF32 tests enable TF32 themselves
  ::testing::AddGlobalTestEnvironment(new NeedsGpu);
  const int code = RUN_ALL_TESTS();
  if (!has_gpu() && !::testing::GTEST_FLAG(list_tests))
    std::cout << "\nNOT RUN: " << UnitTest::GetInstance()->test_to_run_count()
              << " conformance cases, because this process sees no GPU. test_emulated_cuda runs them without one."
              << std::endl;
  return code;
}

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/sanitizers.h>

namespace tandem {
namespace {

class Soak : public ::testing::TestWithParam<std::pair<std::string, int>> {};

TEST_P(Soak, memory_stays_flat_over_many_steps) {
  const auto& [backend, steps] = GetParam();
  const auto outcome = testing::run_process(
      {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", "4", TANDEM_PROGRAM_DIR "/soak_worker", "--steps",
       std::to_string(steps), "--backend", backend},
      // The address sanitizer would keep freed memory for a while, which would look like growth.
      {{"OMP_NUM_THREADS", "1"}, {"ASAN_OPTIONS", "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}},
      std::chrono::seconds(200) * testing::sanitizer_factor);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string mark = "KiB gained: ";
  const auto at = outcome.out.find(mark);
  ASSERT_NE(at, std::string::npos) << outcome.out;
  EXPECT_LT(std::stod(outcome.out.substr(at + mark.size())), 1024) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Backends, Soak, ::testing::Values(std::pair("shm", 20000), std::pair("gloo", 3000)),
                         [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace tandem

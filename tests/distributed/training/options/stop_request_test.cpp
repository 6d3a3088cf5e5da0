#include <tandem/distributed/groups/local_group.h>
#include <tandem/distributed/training/options/stop_request.h>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;

// A program that is asked to stop after `steps` steps, and takes no more because the other ranks are gone.
void wait_for_the_end(int steps) {
  ::setenv("TANDEM_GRACE", "1.2", 1);
  const auto group = local_group();
  StopRequest::Options options{};
  options.takes_signals = true;
  StopRequest stop(*group, options);
  for (int i = 0; i < steps; ++i) {
    std::this_thread::sleep_for(1ms);
    stop.poll();
  }
  std::raise(SIGTERM);
  std::this_thread::sleep_for(20s);
}

// The message can't say how long an endless step takes, or which grace time would be enough.
TEST(StopRequest, NoGraceTimeIsPromisedForAStepThatMayNeverEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(wait_for_the_end(0), ::testing::ExitedWithCode(128 + SIGTERM),
              "no step has ended yet, for 1 s: do the other ranks still run\\?");
  EXPECT_EXIT(wait_for_the_end(3), ::testing::ExitedWithCode(128 + SIGTERM),
              "this step has not ended for 1 s, the longest before took 0.* s: do the other ranks still run\\?");
}

}  // namespace
}  // namespace tandem::distributed

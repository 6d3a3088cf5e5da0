// How long a thread of OpenMP spins, by the processor time that the process takes while its main thread sleeps.
#include <tandem/core/ops.h>
#include <tandem/distributed/training/spin_limit.h>
#include <tandem/distributed/training/trainer.h>
#include <tandem/nn/linear.h>

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

namespace tandem::distributed {
namespace {

using namespace std::chrono_literals;

std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// How long the second thread of a team spins after the team's work. Other threads of this process sleep meanwhile.
std::chrono::nanoseconds spin_time() {
  Array numbers = ops::zeros({1 << 20});
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    ops::scale_(numbers, 2);
    const auto before = processor_time();
    std::this_thread::sleep_for(50ms);
    least = std::min(least, processor_time() - before);
  }
  return least;
}

class SpinLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    omp_set_num_threads(2);
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) GTEST_SKIP() << "the user chose how to wait";
    if (spin_time() < 500us) GTEST_SKIP() << "this library of OpenMP does not spin";
  }
  void TearDown() override { omp_set_num_threads(before_); }

 private:
  const int before_ = omp_get_max_threads();
};

TEST_F(SpinLimits, MoreThreadsThanCoresSpinForMicroseconds) {
  {
    const ShortSpins short_spins;
    std::this_thread::sleep_for(50ms);
    EXPECT_LT(spin_time(), 500us);
  }
  EXPECT_GT(spin_time(), 500us);
}

// Threads of this process take the cores away here, and other programs in life: the system counts both.
TEST_F(SpinLimits, ATrainerSpinsForMicrosecondsWhereCoresAreBusy) {
  const TrainingOptions options("test", "");
  nn::Linear model(1, 1);
  const Trainer trainer(options, init(), model);
  {
    std::atomic<bool> is_over = false;
    std::vector<std::jthread> others;
    for (int i = 0; i < 2 * omp_get_num_procs(); ++i)
      others.emplace_back([&] {
        while (!is_over) {
        }
      });
    std::this_thread::sleep_for(1s);
    is_over = true;
  }
  EXPECT_LT(spin_time(), 500us);
}

}  // namespace
}  // namespace tandem::distributed

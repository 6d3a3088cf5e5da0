#include <tandem/core/base/deadline.h>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(Deadline, EndsAWaitInTime) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const std::promise<void> never;
  for (const auto time : {0ms, 20ms, 600ms}) {
    const auto start = steady_clock::now();
    EXPECT_FALSE(wait_until(changed, lock, RunningTime::now() + time, [] { return false; }));
    EXPECT_GE(steady_clock::now() - start, time);
    EXPECT_LT(steady_clock::now() - start, time + 500ms);
  }
  EXPECT_TRUE(wait_until(changed, lock, RunningTime::now(), [] { return true; }));
  std::promise<int> soon;
  const auto result = soon.get_future();
  EXPECT_FALSE(wait_until(result, RunningTime::now() + 300ms));
  soon.set_value(1);
  EXPECT_TRUE(wait_until(result, Deadline::max()));
}

// A process is stopped for 3 s during a wait of 2 s. The event happens while the process is stopped, and the process
// notices it afterwards. A second process is not stopped, and its wait times out.
TEST(Deadline, DoesNotComeWhileTheProcessIsStopped) {
  const auto child = [&](int delay) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock lock(mutex);
    const auto start = steady_clock::now();
    const bool came = wait_until(changed, lock, RunningTime::now() + 2s,
                                 [&] { return steady_clock::now() - start > std::chrono::milliseconds(delay); });
    _exit(came ? 0 : 1);
  };
  const pid_t stopped = child(3200), running = child(3200);
  std::this_thread::sleep_for(300ms);
  kill(stopped, SIGSTOP);
  std::this_thread::sleep_for(3s);
  kill(stopped, SIGCONT);
  int status = -1;
  waitpid(stopped, &status, 0);
  EXPECT_EQ(status, 0);
  waitpid(running, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace tandem

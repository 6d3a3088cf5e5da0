#include <tandem/core/base/check.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/init.h>
#include <tandem/distributed/launch/spawn.h>

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <support/alone.h>
#include <support/process.h>
#include <support/temporary_folder.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::alone;
using testing::error_of;
using testing::expect_parts;
using testing::read_bytes;
using testing::run_process;
using testing::write_bytes;

bool has_children() { return waitpid(-1, nullptr, WNOHANG) >= 0; }

bool is_alive(pid_t pid) {
  const auto stat = read_bytes("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat[name_end + 2] != 'Z';
}

bool eventually(const std::function<bool()>& condition) {
  for (const auto deadline = steady_clock::now() + 10s; steady_clock::now() < deadline;
       std::this_thread::sleep_for(5ms)) {
    if (condition()) return true;
  }
  return false;
}

// Other tests leave threads behind, which spawn() rejects, so each of these tests runs in a separate process.
class SpawnTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "NOT RUN: the thread sanitizer has a thread of its own, and spawn wants none";
#endif
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(SpawnTest, RanksMeetAndSum) {
  alone([&] {
    int mine = 0;
    spawn(3, [&](int rank) {
      mine = rank + 1;
      const auto environment = read_environment();
      TANDEM_CHECK(environment.rank == rank && environment.local_rank == rank && environment.local_world_size == 3,
                   "a wrong environment");
      const auto group = init();
      Array sum = Array::from(std::vector<float>{static_cast<float>(rank + 1)}, {1});
      group->all_reduce(sum)->wait();
      write_bytes(folder_ / std::to_string(rank), std::to_string(sum.item()));
    });
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(std::stod(read_bytes(folder_ / std::to_string(rank))), 6);
    EXPECT_EQ(mine, 0);  // each rank has changed only its copy
    EXPECT_EQ(std::getenv("RANK"), nullptr);
    EXPECT_FALSE(has_children());
  });
}

TEST_F(SpawnTest, TheFirstFailureIsThrownAndTheOthersAreEnded) {
  alone([&] {
    const auto start = steady_clock::now();
    const auto error = error_of([] {
      spawn(3, [](int rank) {
        const auto group = init();
        if (rank == 1) throw std::runtime_error("no more apples");
        group->barrier()->wait();  // fails a moment later, because rank 1 has gone
        pause();
      });
    });
    EXPECT_EQ(error, "spawn: rank 1 of 3: no more apples");
    EXPECT_LT(steady_clock::now() - start, 5s);
    EXPECT_FALSE(has_children());
  });
}

TEST_F(SpawnTest, ASignalIsNamed) {
  alone([&] {
    const auto error = error_of([] {
      spawn(3, [](int rank) {
        const auto group = init();
        if (rank == 2) raise(SIGKILL);
        group->barrier()->wait();
      });
    });
    EXPECT_EQ(error, "spawn: rank 2 of 3 was killed by SIGKILL");
    EXPECT_FALSE(has_children());
  });
}

TEST_F(SpawnTest, AnExitCodeIsNamed) {
  alone([&] {
    EXPECT_EQ(error_of([] { spawn(2, [](int rank) { rank == 0 ? _exit(7) : void(pause()); }); }),
              "spawn: rank 0 of 2 ended with exit code 7");
    EXPECT_EQ(error_of([] { spawn(1, [](int) { throw 5; }); }),
              "spawn: rank 0 of 1: an object that is not a std::exception was thrown");
    EXPECT_FALSE(has_children());
  });
}

TEST_F(SpawnTest, RanksDieWithTheirParent) {
  alone([&] {
    const pid_t parent = fork();
    ASSERT_GE(parent, 0);
    if (parent == 0) {
      spawn(2, [&](int rank) {
        write_bytes(folder_ / ("tmp" + std::to_string(rank)), std::to_string(getpid()));
        fs::rename(folder_ / ("tmp" + std::to_string(rank)), folder_ / std::to_string(rank));
        pause();
      });
      _exit(0);
    }
    ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "0") && fs::exists(folder_ / "1"); }));
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    for (const auto* rank : {"0", "1"}) {
      const auto pid = std::stoi(read_bytes(folder_ / rank));
      EXPECT_TRUE(eventually([&] { return !is_alive(pid); }));
    }
  });
}

TEST_F(SpawnTest, ThreadsAreAnError) {
  alone([&] {
    std::thread other([] { std::this_thread::sleep_for(100ms); });
    expect_parts(error_of([] { spawn(2, [](int) {}); }), {"has 2 threads"});
    other.join();
    EXPECT_THROW(spawn(0, [](int) {}), Error);
    signal(SIGCHLD, SIG_IGN);
    expect_parts(error_of([] { spawn(1, [](int) {}); }), {"SIGCHLD"});
    signal(SIGCHLD, SIG_DFL);
  });
}

TEST_F(SpawnTest, WhatWasPrintedBeforeIsPrintedOnce) {
  alone([&] {
    ::testing::internal::CaptureStdout();
    std::cout << "once ";
    std::fputs("twice", stdout);
    spawn(2, [](int) {});
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "once twice");
  });
}

TEST(MultiInit, TrainsInProcessesOfItsOwn) {
  const auto outcome = run_process({TANDEM_PROGRAM_DIR "/multi_init", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const auto* line : {"Rank 1/3 process initialized.\n", "Rank 3/3 process initialized.\n",
                           "Rank 2/3 training process passed data download barrier.\n", "Epoch 5: loss "}) {
    expect_parts(outcome.out, {line});
  }
}

TEST(MultiInit, RefusesWhatIsNoNumberOfProcesses) {
  for (const auto* processes : {"abc", "0", "-1", "2x", ""}) {
    const auto outcome = run_process({TANDEM_PROGRAM_DIR "/multi_init", processes});
    EXPECT_EQ(outcome.code, 2);
    expect_parts(outcome.err, {std::string("multi_init: ") + processes + ": expected a number of processes"});
  }
}

// The caller writes to every rank after all have started. A rank that has ended by then must not end the caller.
TEST_F(SpawnTest, ARankThatEndsBeforeTheMeetingIsNamed) {
  alone([&] {
    pthread_atfork(nullptr, nullptr, [] { raise(SIGKILL); });
    EXPECT_EQ(error_of([] { spawn(1, [](int) {}); }), "spawn: rank 0 of 1 was killed by SIGKILL");
    EXPECT_FALSE(has_children());
  });
}

}  // namespace
}  // namespace tandem::distributed

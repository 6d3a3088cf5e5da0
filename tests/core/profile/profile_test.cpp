#include <tandem/core/base/check.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/base/thread.h>
#include <tandem/core/profile/profile.h>
#include <tandem/core/profile/profile_lanes.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"
#include "support/trace.h"

namespace tandem {
namespace {

using testing::read_trace;
using testing::TemporaryFolder;
using testing::Trace;

TEST(Profile, RangesLieInOneAnother) {
  const TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  name_thread("compute");
  Profile::start(path, 3);
  {
    const Scope outer("outer");
    for (int i = 0; i < 3; ++i) {
      Scope inner("inner", " backward");
      inner.note("bytes", 4096);
      inner.note("name", "bucket \"0\"\n\\");
    }
  }
  Profile::stop();
  const Trace trace = read_trace(path);
  testing::expect_nested(trace);
  ASSERT_EQ(trace.ranges.size(), 4u);
  EXPECT_EQ(trace.process_name, "rank 3");
  EXPECT_EQ(trace.count("compute", "outer"), 1);
  EXPECT_EQ(trace.count("compute", "inner backward"), 3);
  const auto& inner = trace.ranges[0];
  EXPECT_EQ(inner.at("args").at("bytes"), 4096);
  EXPECT_EQ(inner.at("args").at("name"), "bucket \"0\"\\x0a\\");
  EXPECT_EQ(inner.at("pid"), 3);
}

TEST(Profile, SumsUpTheTimeOfEachName) {
  const TemporaryFolder folder;
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  name_thread("compute");
  Profile::start((folder / "trace.json").string());
  for (int i = 0; i < 3; ++i) {
    const Scope outer("outer");
    sleep();
    Scope inner("inner", " backward");
    inner.show_as("path.of.inner");
    EXPECT_TRUE(inner.takes_notes());
    sleep();
  }
  Profile::stop();
  const auto summary = Profile::summary();
  ASSERT_EQ(summary.rows.size(), 2u);
  for (const auto& row : summary.rows) {
    EXPECT_EQ(row.lane, "compute");
    EXPECT_EQ(row.count, 3);
    EXPECT_GE(row.self, 0.06);
    EXPECT_TRUE(row.name == "outer" || row.name == "path.of.inner backward") << row.name;
    const bool is_outer = row.name == "outer";
    EXPECT_GE(row.seconds, is_outer ? 0.12 : 0.06);
    EXPECT_LE(row.self, is_outer ? row.seconds - 0.06 : row.seconds);
    EXPECT_LE(row.seconds, summary.seconds);
  }
  const Scope after("after");
  EXPECT_FALSE(after.takes_notes());
}

TEST(Profile, WhatIsDoneInsideOfAWaitIsWaiting) {
  const TemporaryFolder folder;
  Profile::start((folder / "trace.json").string());
  {
    const Scope wait("wait for ranks");
    const Scope work("all_reduce");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Profile::stop();
  for (const auto& row : Profile::summary().rows) {
    if (row.name == "all_reduce") {
      EXPECT_EQ(row.self, 0);
    } else {
      EXPECT_GE(row.self, 0.02);
    }
  }
}

TEST(Profile, EachThreadHasALaneAndTheNextOneTakesItOver) {
  const TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  Profile::start(path);
  const auto work = [] {
    name_thread("worker of this test");
    const Scope scope("load");
  };
  for (int i = 0; i < 3; ++i) std::thread(work).join();
  std::thread([&] {
    work();  // keeps its lane until the thread ends
    std::thread(work).join();
  }).join();
  Profile::stop();
  const Trace trace = read_trace(path);
  testing::expect_nested(trace);
  EXPECT_EQ(trace.count("worker of this test", "load"), 4);
  EXPECT_EQ(trace.count("worker of this test 2", "load"), 1);
}

TEST(Profile, OnlyWhatBeginsAndEndsWithinATraceIsInIt) {
  const TemporaryFolder folder;
  const auto first = (folder / "first.json").string(), second = (folder / "second.json").string();
  {
    const Scope before("before");
    Profile::start(first);
  }
  {
    const Scope between("between");
    { const Scope inside("inside the first"); }
    Profile::stop();
    Profile::start(second);
  }
  { const Scope inside("inside the second"); }
  Profile::stop();
  Profile::stop();
  { const Scope after("after"); }
  const Trace a = read_trace(first), b = read_trace(second);
  ASSERT_EQ(a.ranges.size(), 1u);
  EXPECT_EQ(a.ranges[0].at("name"), "inside the first");
  ASSERT_EQ(b.ranges.size(), 1u);
  EXPECT_EQ(b.ranges[0].at("name"), "inside the second");
}

// Profiles show all ranges. An error names the innermost range that is an operation, unless its text already does.
TEST(Profile, ErrorsNameTheOperationThatIsTheInnermostRange) {
  const auto text_of = [](const char* text) {
    try {
      TANDEM_CHECK(false, text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text_of("it broke"), "it broke");
  const Scope operation("conv2d");
  EXPECT_EQ(text_of("it broke"), "conv2d: it broke");
  EXPECT_EQ(text_of("no conv2d of this"), "no conv2d of this");
  const Scope phase(Scope::Kind::phase, "load");
  EXPECT_EQ(text_of("it broke"), "it broke");
  EXPECT_EQ(Scope::innermost(), &phase);
}

TEST(Profile, ManyThreadsAtOnce) {
  const TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  Profile::start(path);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      name_thread("one of four");
      for (int i = 0; i < 2000; ++i) {
        const Scope outer("outer");
        const Scope inner("inner");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  Profile::stop();
  const Trace trace = read_trace(path);
  testing::expect_nested(trace);
  EXPECT_EQ(trace.ranges.size(), 4u * 2 * 2000);
}

TEST(Profile, OtherSourcesHaveLanesToo) {
  const TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  detail::profile_range("GPU 0, stream 7", "kernel", 1, 2);  // no profile is running, so this has no effect
  Profile::start(path);
  const auto now = detail::profile_now();
  detail::profile_range("GPU 0, stream 7", "kernel<float>", now, now + 1500, "\"bytes\":8");
  detail::profile_range("GPU 0, stream 7", "kernel<float>", now + 2000, now + 2500);
  Profile::stop();
  const Trace trace = read_trace(path);
  ASSERT_EQ(trace.count("GPU 0, stream 7", "kernel<float>"), 2);
  EXPECT_NEAR(trace.ranges[0].at("dur").get<double>(), 1.5, 1e-9);
}

TEST(Profile, AFileThatCannotBeMadeIsAnError) {
  const TemporaryFolder folder;
  EXPECT_ERROR(Profile::start((folder / "no" / "trace.json").string()), "no/trace.json", "No such file", "folder");
  EXPECT_ERROR(Profile::start("/dev/full"), "/dev/full", "No space left");
  Profile::start((folder / "trace.json").string());
  EXPECT_ERROR(Profile::start((folder / "other.json").string()), "stop() it first");
  Profile::stop();
}

// Runs f in a separate process. Returns the status from waitpid.
template <class F>
int in_process(F f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(9);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Profile, AKilledProgramLeavesAValidTrace) {
  const TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  const int status = in_process([&] {
    name_thread("doomed");
    Profile::start(path);
    { const Scope scope("the last words"); }
    while (std::filesystem::file_size(path) < 200) usleep(1000);
    raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(read_trace(path).count("doomed", "the last words"), 1);
}

TEST(Profile, AFullDiskIsAnErrorAndLeavesAValidTrace) {
  const TemporaryFolder folder;
  const auto path = (folder / "trace.json").string();
  const int status = in_process([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    name_thread("writer of much");
    Profile::start(path);
    { const Scope scope("early"); }
    while (std::filesystem::file_size(path) < 200) usleep(1000);
    for (int i = 0; i < 1000; ++i) const Scope scope("one of many");
    try {
      Profile::stop();
      _exit(1);
    } catch (const Error& error) {
      const std::string text = error.what();
      _exit(text.find("only the ranges before this error") != std::string::npos && text.find(path) != std::string::npos
                ? 0
                : 2);
    }
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: no error; 2: another text";
  const Trace trace = read_trace(path);
  EXPECT_EQ(trace.count("writer of much", "early"), 1);
  EXPECT_EQ(trace.ranges.size(), 1u);
}

}  // namespace
}  // namespace tandem

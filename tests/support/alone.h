// Runs a test in a separate process, because other tests leave threads or a GPU's context behind.
#pragma once

#include <gtest/gtest.h>
#include <support/process.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

namespace tandem::testing {

// Runs the calling test again in a new process, and `body` only there.
inline void alone(const std::function<void()>& body) {
  if (std::getenv("TANDEM_TEST_ALONE")) return body();
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto outcome = run_process({program, filter}, {{"TANDEM_TEST_ALONE", "1"}});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  expect_parts(outcome.out, {"1 test from 1 test suite ran"});
}

}  // namespace tandem::testing

// Runs the built tandemrun as a process, with small shell commands as its ranks.
#pragma once

#include <gtest/gtest.h>
#include <support/running_process.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::testing {

std::vector<std::string> sorted_lines(const std::string& text);

// A zombie does not count as alive.
bool is_alive(pid_t pid);

// Runs tandemrun with a separate folder for temporary files, and stores its output.
class LauncherTest : public ::testing::Test {
 private:
  const TemporaryFolder temporary_;

 protected:
  void SetUp() override;
  void TearDown() override;

  void start(std::vector<std::string> arguments);

  // kill(2) must only get the ID of a single process: -1 would mean every process on the machine.
  void send(int signal);

  // Returns the exit code, or 1000 + the signal that ended tandemrun, or 2000 if it did not end.
  int finish();

  int run(const std::vector<std::string>& arguments);
  int run_shell(int ranks, const std::string& script, std::vector<std::string> options = {});

  std::string out() const { return read_bytes(folder_ / "out"); }
  std::string err() const { return read_bytes(folder_ / "err"); }
  // Waits until the ranks' scripts have written `count` files named pid*. Returns the process IDs in them.
  std::vector<pid_t> pids(std::size_t count) const;
  bool all_end(const std::vector<pid_t>& processes) const;

  bool has_temporary_folder() const;

  const std::filesystem::path& folder_ = temporary_.path();
  pid_t pid_ = -1;
};

}  // namespace tandem::testing

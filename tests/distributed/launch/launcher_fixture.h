// Runs the built tandemrun as a process, with small shell commands as its ranks.
#pragma once

#include <tandem/core/base/check.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <support/running_process.h>
#include <support/temporary_folder.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::testing {

inline const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";

inline std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// A zombie does not count as alive.
inline bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(file)), {});
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z';
}

// Runs tandemrun with a separate folder for temporary files, and stores its output.
class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pattern = (std::filesystem::temp_directory_path() / "tandem_launcher_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    if (pid_ > 0) finish();
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  void start(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {tandemrun};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (auto& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, (folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND,
                                     0600);
    posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND,
                                     0600);
    const int failure = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure) {
      pid_ = -1;
      throw Error("cannot run " + tandemrun + ": " + std::strerror(failure));
    }
  }

  // kill(2) must only get the ID of a single process: -1 would mean every process on the machine.
  void send(int signal) {
    TANDEM_CHECK(pid_ > 1, "tandemrun is not running");
    EXPECT_EQ(kill(pid_, signal), 0);
  }

  // Returns the exit code, or 1000 + the signal that ended tandemrun, or 2000 if it did not end.
  int finish() {
    TANDEM_CHECK(pid_ > 1, "tandemrun is not running");
    int status = 0;
    if (!eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) {
      send(SIGKILL);
      waitpid(pid_, &status, 0);
      pid_ = -1;
      return 2000;
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  int run(const std::vector<std::string>& arguments) {
    start(arguments);
    return finish();
  }
  int run_shell(int ranks, const std::string& script, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"--nproc-per-node", std::to_string(ranks)});
    options.insert(options.end(), {"sh", "-c", script});
    return run(options);
  }

  std::string out() const { return read_bytes(folder_ / "out"); }
  std::string err() const { return read_bytes(folder_ / "err"); }
  // Waits until the ranks' scripts have written `count` files named pid*. Returns the process IDs in them.
  std::vector<pid_t> pids(std::size_t count) const {
    std::vector<pid_t> result;
    EXPECT_TRUE(eventually([&] {
      result.clear();
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        if (!entry.path().filename().string().starts_with("pid")) continue;
        const auto text = read_bytes(entry.path());
        const bool is_complete = !text.empty() && text.back() == '\n';
        if (is_complete) result.push_back(std::stoi(text));
      }
      return result.size() == count;
    }));
    return result;
  }
  bool all_end(const std::vector<pid_t>& processes) const {
    return eventually([&] { return std::none_of(processes.begin(), processes.end(), is_alive); });
  }

  bool has_temporary_folder() const {
    return std::any_of(std::filesystem::directory_iterator(folder_), {},
                       [](const auto& entry) { return entry.path().filename().string().starts_with("tandemrun-"); });
  }

  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

}  // namespace tandem::testing

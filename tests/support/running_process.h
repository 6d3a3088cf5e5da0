// A program under test that runs beside the test, to be watched and disturbed.
#pragma once

#include <support/temporary_folder.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace tandem::testing {

// Whether `condition` holds within the time.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  for (const auto deadline = std::chrono::steady_clock::now() + timeout;
       std::chrono::steady_clock::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (condition()) return true;
  }
  return condition();
}

class RunningProcess {
 public:
  // command[0] is looked for in PATH; `variables` come on top of this environment. What it leaves in the folder for
  // temporary files goes with this object.
  explicit RunningProcess(std::vector<std::string> command,
                          std::map<std::string, std::string> variables = {}) {
    variables.emplace("TMPDIR", folder_.path());
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (variables.count(text.substr(0, text.find('='))) == 0) environment.push_back(text);
    }
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> result;
      for (auto& text : texts) result.push_back(text.data());
      result.push_back(nullptr);
      return result;
    };
    const auto out = (folder_ / "out").string(), err = (folder_ / "err").string();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int error = posix_spawnp(&pid_, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                   pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) pid_ = -1;
    TANDEM_CHECK(error == 0, "can't start ", command[0]);
  }
  ~RunningProcess() {
    if (pid_ > 1) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  void send(int signal) const {
    // -1 would be every process of the machine.
    TANDEM_CHECK(pid_ > 1, "the process has ended");
    EXPECT_EQ(kill(pid_, signal), 0);
  }

  // The exit code, or 128 + the signal; -1, and a failure of the test, when it does not end in time.
  int finish(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    TANDEM_CHECK(pid_ > 1, "the process has ended");
    int status = 0;
    const bool has_ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, timeout);
    if (!has_ended) {
      ADD_FAILURE() << "did not end within " << timeout.count() << " ms; it said: " << err();
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
    return !has_ended ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string out() const { return read_bytes(folder_ / "out"); }
  std::string err() const { return read_bytes(folder_ / "err"); }

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

}  // namespace tandem::testing

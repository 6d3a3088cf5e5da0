// A program under test that runs at the same time as the test, which can watch and disturb it.
#pragma once

#include <support/process.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tandem::testing {

// Waits until `condition` holds. Returns false if it does not hold in time.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  for (const auto deadline = std::chrono::steady_clock::now() + timeout; std::chrono::steady_clock::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (condition()) return true;
  }
  return condition();
}

class RunningProcess {
 public:
  // The program command[0] is looked up in PATH. Its environment is that of this process, changed by `variables`. Its
  // folder for temporary files is removed with this object.
  explicit RunningProcess(std::vector<std::string> command, std::map<std::string, std::string> variables = {}) {
    variables.emplace("TMPDIR", folder_.path());
    pid_ = start_process(std::move(command), variables, folder_);
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
    // kill(-1) would reach every process on the machine.
    TANDEM_CHECK(pid_ > 1, "the process has ended");
    EXPECT_EQ(kill(pid_, signal), 0);
  }

  // Waits for the end of the process. Returns its exit code, or 128 + the signal that ended it. If it does not end in
  // time, the test fails and the result is -1.
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

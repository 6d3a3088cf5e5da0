#include <tandem/core/base/check.h>

#include <support/running_process.h>

#include <sys/wait.h>

#include <csignal>
#include <thread>
#include <utility>

namespace tandem::testing {

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  for (const auto deadline = std::chrono::steady_clock::now() + timeout; std::chrono::steady_clock::now() < deadline;
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (condition()) return true;
  }
  return condition();
}

RunningProcess::RunningProcess(std::vector<std::string> command, std::map<std::string, std::string> variables) {
  variables.emplace("TMPDIR", folder_.path());
  pid_ = start_process(std::move(command), variables, folder_);
}

RunningProcess::~RunningProcess() {
  if (pid_ > 1) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void RunningProcess::send(int signal) const {
  // kill(-1) would reach every process on the machine.
  TANDEM_CHECK(pid_ > 1, "the process has ended");
  EXPECT_EQ(kill(pid_, signal), 0);
}

int RunningProcess::finish(std::chrono::milliseconds timeout) {
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

}  // namespace tandem::testing

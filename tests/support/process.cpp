#include <tandem/core/base/check.h>

#include <support/process.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace tandem::testing {

const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";

pid_t start_process(std::vector<std::string> command, const std::map<std::string, std::string>& variables,
                    const TemporaryFolder& folder) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (variables.count(text.substr(0, text.find('='))) == 0) environment.push_back(text);
  }
  for (const auto& [name, value] : variables) {
    if (!value.empty()) environment.push_back(name + "=" + value);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (auto& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  const auto out = (folder / "out").string(), err = (folder / "err").string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, command[0].c_str(), &actions, nullptr, pointers(command).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  TANDEM_CHECK(error == 0, "can't start ", command[0]);
  return pid;
}

Outcome run_process(std::vector<std::string> command, const std::map<std::string, std::string>& variables,
                    std::chrono::seconds timeout, const std::function<bool(pid_t)>& is_stuck) {
  const TemporaryFolder folder;
  auto environment = variables;
  environment.emplace("TMPDIR", folder.path());
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = start_process(command, environment, folder);

  Outcome outcome;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    const bool is_late = std::chrono::steady_clock::now() - start > timeout;
    if (is_late || (is_stuck && is_stuck(pid))) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      if (is_late) ADD_FAILURE() << command[0] << " did not end within " << timeout.count() << " s";
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  else if (outcome.seconds < static_cast<double>(timeout.count())) outcome.code = 128 + WTERMSIG(status);
  outcome.out = read_bytes(folder / "out");
  outcome.err = read_bytes(folder / "err");
  return outcome;
}

}  // namespace tandem::testing

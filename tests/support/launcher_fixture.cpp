#include <tandem/core/base/check.h>

#include <support/launcher_fixture.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>

namespace tandem::testing {

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool is_alive(pid_t pid) {
  const std::string stat = read_bytes("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z';
}

void LauncherTest::SetUp() { setenv("TMPDIR", folder_.c_str(), 1); }

void LauncherTest::TearDown() {
  if (pid_ > 0) finish();
  unsetenv("TMPDIR");
}

void LauncherTest::start(std::vector<std::string> arguments) {
  for (const char* name : {"out", "err"}) std::filesystem::remove(folder_ / name);
  arguments.insert(arguments.begin(), tandemrun);
  pid_ = start_process(std::move(arguments), {}, temporary_);
}

void LauncherTest::send(int signal) {
  TANDEM_CHECK(pid_ > 1, "tandemrun is not running");
  EXPECT_EQ(kill(pid_, signal), 0);
}

int LauncherTest::finish() {
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

int LauncherTest::run(const std::vector<std::string>& arguments) {
  start(arguments);
  return finish();
}

int LauncherTest::run_shell(int ranks, const std::string& script, std::vector<std::string> options) {
  options.insert(options.begin(), {"--nproc-per-node", std::to_string(ranks)});
  options.insert(options.end(), {"sh", "-c", script});
  return run(options);
}

std::vector<pid_t> LauncherTest::pids(std::size_t count) const {
  std::vector<pid_t> result;
  EXPECT_TRUE(eventually([&] {
    result.clear();
    for (const auto& name : temporary_.names()) {
      if (!name.starts_with("pid")) continue;
      const auto text = read_bytes(folder_ / name);
      const bool is_complete = !text.empty() && text.back() == '\n';
      if (is_complete) result.push_back(std::stoi(text));
    }
    return result.size() == count;
  }));
  return result;
}

bool LauncherTest::all_end(const std::vector<pid_t>& processes) const {
  return eventually([&] { return std::none_of(processes.begin(), processes.end(), is_alive); });
}

bool LauncherTest::has_temporary_folder() const {
  const auto names = temporary_.names();
  return std::any_of(names.begin(), names.end(), [](const auto& name) { return name.starts_with("tandemrun-"); });
}

}  // namespace tandem::testing

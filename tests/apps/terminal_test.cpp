// The output of mnist_ddp at a terminal.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "support/mnist_ddp_fixture.h"

namespace tandem {
namespace {

using testing::MnistDdp;
using Words = std::vector<std::string>;

// Runs a program in a new terminal. `answer` is called repeatedly with everything that the terminal has shown, and
// returns the keys to press next. The result is everything that the terminal has shown.
std::string at_terminal(Words command, const std::function<std::string(const std::string& shown)>& answer) {
  std::vector<char*> words;
  for (auto& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv(words[0], words.data());
    _exit(127);
  }
  std::string shown;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    pollfd ready{terminal, POLLIN, 0};
    if (poll(&ready, 1, 100) > 0) {
      char buffer[4096];
      const auto n = read(terminal, buffer, sizeof buffer);
      if (n <= 0) break;  // all processes have closed the terminal
      shown.append(buffer, static_cast<std::size_t>(n));
    }
    const std::string keys = answer(shown);
    if (keys.empty()) continue;
    EXPECT_EQ(write(terminal, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  close(terminal);
  return shown;
}

class Terminal : public MnistDdp {
 protected:
  Words job(int processes, const Words& more) const {
    Words command;
    if (processes > 1) command = {testing::tandemrun, "--nproc-per-node", std::to_string(processes)};
    command.push_back(testing::mnist_ddp);
    const auto arguments = with_data({"--epochs", "1000000"});
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
};

const std::string start_of_line = "\r\x1b[K";

TEST_F(Terminal, ControlCIsAnsweredOnALineOfItsOwn) {
  for (const bool saves : {false, true}) {
    bool is_pressed = false;
    const Words more = saves ? Words{"--checkpoint", path("c")} : Words{};
    const std::string shown = at_terminal(job(2, more), [&](const std::string& all) {
      if (is_pressed || all.find(" batch ") == std::string::npos) return std::string();
      is_pressed = true;
      return std::string("\x03");
    });
    EXPECT_NE(shown.find(start_of_line + "tandemrun: stopped by SIGINT\r\n"), std::string::npos) << shown;
    EXPECT_EQ(shown.find(start_of_line + "stopped by SIGINT after ") != std::string::npos, saves) << shown;
  }
}

// The first loss must be the loss of the first batches, near ln 10, and not a number that was cut off. The job runs
// until the line appears, and learns almost nothing until then.
TEST_F(Terminal, TheProgressLineHasALossThatCanBe) {
  bool is_pressed = false;
  const std::string shown = at_terminal(job(1, {"--lr", "1e-7"}), [&](const std::string& all) {
    if (is_pressed || all.find(" left, ") == std::string::npos) return std::string();
    is_pressed = true;
    return std::string("\x03");
  });
  const std::string mark = "  loss ";
  const auto at = shown.find(mark);
  ASSERT_NE(at, std::string::npos) << shown;
  EXPECT_NEAR(std::stod(shown.substr(at + mark.size(), 10)), 2.4, 0.4) << shown;
  EXPECT_TRUE(is_pressed) << shown;
  // The line fits into the 80 columns of a terminal that reports no size, and no number is cut off.
  const std::regex whole(
      "epoch \\d+/\\d+ batch \\d+/\\d+  loss [\\d.]+  [\\d:hm]+ left, job [\\d:hm]+(  [\\d.]+ images/s)?");
  for (auto begin = shown.find("\repoch "); begin != std::string::npos; begin = shown.find("\repoch ", begin + 1)) {
    const std::string line = shown.substr(begin + 1, shown.find("\x1b[K", begin) - begin - 1);
    EXPECT_LT(line.size(), 80) << line;
    EXPECT_TRUE(std::regex_match(line, whole)) << line;
  }
}

// In a pipe or a file, rank 0's lines appear once and in order, even if the launcher writes copies.
TEST_F(Terminal, LinesSurviveTheLaunchersCopies) {
  for (const Words& copies :
       {Words{}, {"--tee", "3"}, {"--tee", "1:2"}, {"--redirects", "1:3"}, {"--redirects", "3"}}) {
    Words command = {testing::tandemrun, "--nproc-per-node", "2", "--log-dir", path("logs")};
    command.insert(command.end(), copies.begin(), copies.end());
    command.push_back(testing::mnist_ddp);
    const auto arguments = with_data({"--epochs", "2", "--log-every", "1"});
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto outcome = testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::string out = outcome.out;
    if (copies == Words{"--redirects", "3"}) {
      EXPECT_EQ(out, "");
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "logs"))
        if (entry.path().string().ends_with("/0/stdout.log")) out = testing::read_bytes(entry.path());
    }
    std::size_t at = 0;
    for (const char* words : {"step 1: loss ", "step 2: loss ", "Total loss: ", "Epoch 1/2: ", "step 3: loss ",
                              "step 4: loss ", "Total loss: ", "Epoch 2/2: "}) {
      const auto found = out.find(words, at);
      ASSERT_NE(found, std::string::npos) << words << " in\n" << out;
      at = found + 1;
    }
    EXPECT_EQ(std::ranges::count(out, '\n'), 8) << out;
    std::filesystem::remove_all(folder / "logs");
  }
}

}  // namespace
}  // namespace tandem

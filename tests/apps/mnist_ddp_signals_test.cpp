// Signals and limits that end mnist_ddp early. Nothing may be lost.
#include <gtest/gtest.h>
#include <support/running_process.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "support/mnist_ddp_fixture.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::eventually;
using testing::expect_parts;
using testing::MnistDdp;
using testing::read_bytes;
using testing::run_mnist_ddp;
using testing::RunningProcess;
using Words = std::vector<std::string>;

class MnistDdpSignals : public MnistDdp {
 protected:
  Words job(int processes, const Words& more) const {
    Words command;
    if (processes > 1) command = {testing::tandemrun, "--nproc-per-node", std::to_string(processes)};
    command.push_back(testing::mnist_ddp);
    const auto arguments = with_data({"--epochs", "1000000", "--lr", "0.05", "--momentum", "0.9"});
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  int newest_step(const std::string& name) const {
    int newest = 0;
    for (const auto& entry : fs::directory_iterator(folder / name)) {
      const auto file = entry.path().filename().string();
      if (file.ends_with(".safetensors")) newest = std::max(newest, std::stoi(file.substr(file.rfind('-') + 1)));
    }
    return newest;
  }
};

// The signal arrives at any moment, in the middle of an epoch or at its end.
TEST_F(MnistDdpSignals, ASignalLeavesACheckpointFromWhichTheJobGoesOn) {
  const std::map<std::string, std::string> one_thread = {{"OMP_NUM_THREADS", "1"}};
  for (const auto& [processes, signal, code] : {std::tuple(1, SIGTERM, 128 + SIGTERM),
                                                {2, SIGTERM, 128 + SIGTERM},
                                                {1, SIGINT, 128 + SIGINT},
                                                {1, SIGHUP, 128 + SIGHUP},
                                                {2, SIGUSR1, 0}}) {
    const auto name = "c" + std::to_string(processes) + "-" + std::to_string(signal);
    RunningProcess running(job(processes, {"--checkpoint", path(name), "--save-every", "5"}), one_thread);
    ASSERT_TRUE(eventually([&] { return fs::exists(folder / name) && newest_step(name) > 0; })) << running.err();
    running.send(signal);
    EXPECT_EQ(running.finish(std::chrono::seconds(20)), code) << running.err();
    const int step = newest_step(name);
    expect_parts(running.err(),
                 {"stopped by SIG", " after " + std::to_string(step) + " steps in all: --resume continues"});

    const auto last = std::to_string(step + 3);
    const auto rest = run_mnist_ddp(
        processes, with_data({"--epochs", "1000000", "--lr", "0.05", "--momentum", "0.9", "--checkpoint", path(name),
                              "--resume", "--max-steps", last, "--save", path("resumed.safetensors")}));
    EXPECT_EQ(rest.code, 0) << rest.err;
    const auto through = run_mnist_ddp(processes, with_data({"--epochs", "1000000", "--lr", "0.05", "--momentum", "0.9",
                                                             "--max-steps", last, "--save", path("all.safetensors")}));
    EXPECT_EQ(through.code, 0) << through.err;
    EXPECT_TRUE(read_bytes(path("resumed.safetensors")) == read_bytes(path("all.safetensors"))) << name << step;
  }
}

// A signal to one rank stops all ranks. It may come from a user who knows only this rank's process ID.
TEST_F(MnistDdpSignals, OneRanksSignalEndsAll) {
  const auto words = job(1, {"--checkpoint", path("c"), "--save-every", "5"});
  std::string program;
  for (const auto& word : words) program += word + " ";
  RunningProcess running(
      {testing::tandemrun, "--nproc-per-node", "2", "sh", "-c", "echo $$ > " + path("pid") + "$RANK; exec " + program},
      {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(eventually([&] { return fs::exists(folder / "c") && newest_step("c") > 0; })) << running.err();
  ASSERT_EQ(kill(std::stoi(read_bytes(path("pid1"))), SIGUSR1), 0);
  EXPECT_EQ(running.finish(std::chrono::seconds(20)), 0) << running.err();
  expect_parts(running.err(), {"stopped by SIGUSR1 after " + std::to_string(newest_step("c")) + " steps"});
}

// Rank 0 gets the signal while it waits for rank 1, before there is a training that could be stopped.
TEST_F(MnistDdpSignals, ARequestBeforeTheTrainingStopsAfterTheFirstStep) {
  std::string program;
  for (const auto& word : job(1, {"--checkpoint", path("c")})) program += word + " ";
  const auto wait = "if [ $RANK = 1 ]; then while [ ! -e " + path("go") + " ]; do sleep 0.05; done; fi; ";
  RunningProcess running({testing::tandemrun, "--nproc-per-node", "2", "sh", "-c",
                          "echo $$ > " + path("pid") + "$RANK; " + wait + "exec " + program},
                         {{"OMP_NUM_THREADS", "1"}});
  const auto holds_the_signal = [&] {
    if (!fs::exists(path("pid0"))) return false;
    const auto status = read_bytes("/proc/" + std::to_string(std::atoi(read_bytes(path("pid0")).c_str())) + "/status");
    const auto blocked = status.find("SigBlk:");
    return blocked != std::string::npos &&
           (std::stoull(status.substr(blocked + 7), nullptr, 16) >> (SIGUSR1 - 1) & 1) != 0;
  };
  ASSERT_TRUE(eventually(holds_the_signal)) << running.err();
  ASSERT_EQ(kill(std::stoi(read_bytes(path("pid0"))), SIGUSR1), 0);
  testing::write_bytes(path("go"), "");
  EXPECT_EQ(running.finish(std::chrono::seconds(20)), 0) << running.err();
  expect_parts(running.err(), {"stopped by SIGUSR1 after 1 step"});
}

// Rank 0 is killed while it writes a checkpoint and the training continues. The disk takes 2 s for each checkpoint.
TEST_F(MnistDdpSignals, AKillDuringAWriteLeavesTheOlderCheckpoint) {
  const auto words = job(1, {"--checkpoint", path("c"), "--save-every", "1000000", "--save-every-steps", "5",
                             "--keep-last", "1", "--metrics", path("m"), "--log-every", "1"});
  std::string program;
  for (const auto& word : words) program += word + " ";
  RunningProcess running({testing::tandemrun, "--nproc-per-node", "2", "sh", "-c",
                          "echo $$ > " + path("pid") +
                              "$RANK; exec env LD_PRELOAD=" TANDEM_PROGRAM_DIR
                              "/slow_fsync.so SLOW_FSYNC=1 ASAN_OPTIONS=verify_asan_link_order=0 " +
                              program},
                         {{"OMP_NUM_THREADS", "1"}});
  const auto is_writing = [&] {
    std::error_code error;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(std::stoi(read_bytes(path("pid0")))) + "/fd")) {
      const auto file = fs::read_symlink(entry.path(), error).string();
      if (file.starts_with(path("c/")) && !file.ends_with(".lock")) return true;
    }
    return false;
  };
  int written = 0;
  ASSERT_TRUE(eventually([&] {
    written = fs::exists(folder / "c") ? newest_step("c") : 0;
    if (written == 0 || !is_writing()) return false;
    // The checkpoint of step written + 5 is being written.
    return read_bytes(path("m")).find("\"step\":" + std::to_string(written + 6) + ",") != std::string::npos;
  })) << running.err();
  ASSERT_EQ(kill(std::stoi(read_bytes(path("pid0"))), SIGKILL), 0);
  EXPECT_EQ(running.finish(std::chrono::seconds(20)), 128 + SIGKILL) << running.err();
  EXPECT_EQ(newest_step("c"), written);

  const auto train = [&](Words more) {
    more.insert(more.end(), {"--epochs", "1000000", "--lr", "0.05", "--momentum", "0.9", "--max-steps",
                             std::to_string(written + 8)});
    const auto outcome = run_mnist_ddp(2, with_data(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  expect_parts(train({"--checkpoint", path("c"), "--resume", "--save", path("resumed.safetensors")}),
               {"resumed from", std::to_string(written) + " steps in all"});
  train({"--save", path("all.safetensors")});
  EXPECT_TRUE(read_bytes(path("resumed.safetensors")) == read_bytes(path("all.safetensors"))) << written;
}

// The disk takes 4 s, and the launcher waits for 2 s.
TEST_F(MnistDdpSignals, AGraceTimeThatIsTooShortIsSaid) {
  const auto words = job(1, {"--checkpoint", path("c"), "--max-steps", "1000000"});
  Words command = {testing::tandemrun,
                   "--nproc-per-node",
                   "2",
                   "--grace",
                   "2",
                   "env",
                   "LD_PRELOAD=" TANDEM_PROGRAM_DIR "/slow_fsync.so",
                   "SLOW_FSYNC=4",
                   "ASAN_OPTIONS=verify_asan_link_order=0"};
  command.insert(command.end(), words.begin(), words.end());
  RunningProcess running(command, {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(eventually([&] { return fs::exists(folder / "c") && newest_step("c") > 0; })) << running.err();
  running.send(SIGTERM);
  EXPECT_EQ(running.finish(std::chrono::seconds(20)), 128 + SIGTERM) << running.err();
  expect_parts(running.err(), {"no checkpoint could be written within the launcher's grace time of 2 s after SIGTERM",
                               "a checkpoint takes ", " would have sufficed"});
}

// The disk takes 2 s. A terminal and a launcher may both send a signal at once, and the two count as one. A user who
// sends a second signal later does not want to wait.
TEST_F(MnistDdpSignals, ASecondSignalWithinASecondCountsOnceALaterOneEndsAtOnce) {
  for (const auto& [name, pause, is_saved] :
       {std::tuple("once", std::chrono::milliseconds(100), true), {"later", std::chrono::milliseconds(1300), false}}) {
    Words command = {"env", "LD_PRELOAD=" TANDEM_PROGRAM_DIR "/slow_fsync.so", "SLOW_FSYNC=2",
                     "ASAN_OPTIONS=verify_asan_link_order=0"};
    const auto words = job(1, {"--checkpoint", path(name), "--save-every", "1000000000", "--log-every", "1"});
    command.insert(command.end(), words.begin(), words.end());
    RunningProcess running(command, {{"OMP_NUM_THREADS", "1"}});
    ASSERT_TRUE(eventually([&] { return running.out().find("step 5:") != std::string::npos; })) << running.err();
    running.send(SIGTERM);
    std::this_thread::sleep_for(pause);
    running.send(SIGTERM);
    EXPECT_EQ(running.finish(std::chrono::seconds(30)), 128 + SIGTERM) << running.err();
    EXPECT_EQ(newest_step(name) > 0, is_saved) << name;
    EXPECT_EQ(running.err().find("stopped by SIGTERM") != std::string::npos, is_saved) << running.err();
  }
}

TEST_F(MnistDdpSignals, MaxTimeEndsWithACheckpointAndTheModel) {
  for (const int processes : {1, 2}) {
    const auto name = "c" + std::to_string(processes);
    const auto outcome = run_mnist_ddp(
        processes, with_data({"--epochs", "1000000", "--checkpoint", path(name), "--save-every", "1000000",
                              "--max-time", "1s", "--save", path(name + ".safetensors"), "--quiet"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_GT(newest_step(name), 0);
    EXPECT_TRUE(fs::exists(path(name + ".safetensors")));
  }
  const auto without = run_mnist_ddp(1, with_data({"--epochs", "1000000", "--max-time", "1s"}));
  EXPECT_EQ(without.code, 0);
  expect_parts(without.err, {"--max-time was reached after ", " in all\n"});
  const auto wrong = run_mnist_ddp(1, with_data({"--max-time", "5 years"}));
  EXPECT_EQ(wrong.code, 2);
  expect_parts(wrong.err, {"--max-time 5 years: expected a duration such as 90s, 90m or 2h"});
}

// The metrics of a resumed job are the same as those of an uninterrupted job: no line occurs twice.
TEST_F(MnistDdpSignals, MetricsGoOnWhereTheCheckpointIs) {
  const auto steps = [&] {
    std::vector<int> found;
    for (const auto& line : testing::json_lines(path("metrics.json")))
      if (line["kind"] == "step") found.push_back(line["step"]);
    return found;
  };
  const Words common = {"--epochs", "3", "--metrics", path("metrics.json"), "--log-every", "1"};
  const auto run = [&](Words more) {
    more.insert(more.end(), common.begin(), common.end());
    EXPECT_EQ(run_mnist_ddp(1, with_data(more)).code, 0);
  };
  run({"--checkpoint", path("c"), "--save-every-steps", "2", "--max-steps", "7", "--keep-last", "9"});
  fs::remove(path("c") + "/checkpoint-0001-00000007.safetensors");  // as if the job had been killed in step 8
  run({"--checkpoint", path("c"), "--resume"});
  EXPECT_EQ(steps(), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  int epochs = 0;
  for (const auto& line : testing::json_lines(path("metrics.json"))) epochs += line["kind"] == "epoch";
  EXPECT_EQ(epochs, 3);
}

// A step that accumulates 19 batches of 5 samples and one batch of 1 equals a step over one batch of 96. The network
// has no batch norm, because its statistics depend on the batch.
TEST_F(MnistDdpSignals, AccumulationIsTheLargeBatchAlsoWhereTheLastOneIsShort) {
  const auto losses = [&](const Words& more) {
    Words command = {
        TANDEM_PROGRAM_DIR "/resume_worker", "--epochs", "3", "--metrics", path("m.json"), "--log-every", "1"};
    command.insert(command.end(), more.begin(), more.end());
    const auto outcome = testing::run_process(command, {{"OMP_NUM_THREADS", "1"}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<double> found;
    for (const auto& line : testing::json_lines(path("m.json")))
      if (line["kind"] == "step") found.push_back(line["loss"]);
    fs::remove(path("m.json"));
    return found;
  };
  const auto large = losses({"--batch-size", "96"}), parts = losses({"--batch-size", "5", "--accumulate", "20"});
  ASSERT_EQ(large.size(), 3u);
  ASSERT_EQ(parts.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(parts[i], large[i], 2e-6) << "step " << i;
}

// Pauses the job with Ctrl-Z and continues it with fg. The pause is longer than --timeout, but does not count towards
// it.
TEST_F(MnistDdpSignals, APauseLongerThanTheTimeoutEndsNothing) {
  for (const std::string backend : {"shm", "gloo"}) {
    RunningProcess running(job(2, {"--timeout", "2", "--backend", backend, "--metrics", path(backend), "--log-every",
                                   "1", "--checkpoint", path("c-" + backend)}),
                           {{"OMP_NUM_THREADS", "1"}});
    const auto size = [&] { return fs::exists(folder / backend) ? fs::file_size(folder / backend) : 0; };
    for (int i = 0; i < 2; ++i) {
      const auto before = size();
      ASSERT_TRUE(eventually([&] { return size() > before; })) << running.err();
      running.send(SIGTSTP);
      std::this_thread::sleep_for(std::chrono::seconds(4));
      running.send(SIGCONT);
    }
    const auto before = size();
    ASSERT_TRUE(eventually([&] { return size() > before + 10000; })) << running.err();
    running.send(SIGUSR1);
    EXPECT_EQ(running.finish(), 0) << running.err();
  }
}

}  // namespace
}  // namespace tandem

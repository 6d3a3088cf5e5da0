// Tests ranks that fail, and signals: the ranks that are named, the processes that are stopped, and the jobs that start
// again.
#include <tandem/distributed/system/socket.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "support/launcher_fixture.h"

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::eventually;
using testing::expect_parts;
using testing::is_alive;
using testing::LauncherTest;
using testing::read_bytes;
using testing::sorted_lines;
using testing::tandemrun;

TEST_F(LauncherTest, ExitCodeIsThatOfTheFirstFailure) {
  const auto start = steady_clock::now();
  EXPECT_EQ(run_shell(3, "if [ $RANK = 1 ]; then echo the reason >&2; exit 7; else sleep 60; fi"), 7);
  EXPECT_LT(steady_clock::now() - start, 5s);
  expect_parts(err(), {"tandemrun: rank 1 failed first: exit code 7 (host "});
  expect_parts(err(), {"last lines of its stderr:\n    the reason\n"});
  EXPECT_EQ(err().find("then rank"), std::string::npos) << err();  // the other ranks were only told to stop
}

// A batch system or a language's runtime may start the launcher with signals blocked, which processes inherit.
TEST_F(LauncherTest, BlockedSignalsAreNoticed) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  start({"--nproc-per-node", "2", "sh", "-c",
         "trap 'exit 5' TERM; echo $$ > " + folder_.string() + "/pid$RANK; while :; do sleep 0.05; done"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pids(2);
  send(SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGTERM);
}

// Bash ends at the signal that its Unix process group gets, while the program that it started is still saving.
TEST_F(LauncherTest, AProgramInAWrapperIsGivenItsTime) {
  const auto at = folder_.string();
  const std::string program = "sh -c 'trap \"sleep 1; touch " + at + "/saved$RANK; exit 0\" TERM USR1; echo $$ > " +
                              at + "/pid$RANK; while :; do sleep 0.05; done'";
  for (const auto& [signal, code] : {std::pair(SIGTERM, 128 + SIGTERM), {SIGUSR1, 0}}) {
    start({"--nproc-per-node", "2", "--grace", "20", "sh", "-c", program + "; true"});
    pids(2);
    send(signal);
    EXPECT_EQ(finish(), code) << err();
    for (const char* name : {"saved0", "saved1", "pid0", "pid1"}) EXPECT_TRUE(fs::remove(folder_ / name)) << name;
  }
}

TEST_F(LauncherTest, AProgramInAWrapperThatFailsIsNotTakenForASuccess) {
  const auto at = folder_.string();
  testing::write_bytes(folder_ / "program", R"(
      fail() { sleep 0.5; echo '{"message": "the disk is full"}' > $TORCHELASTIC_ERROR_FILE; exit 1; }
      trap fail USR1
      echo $$ > $1/pid
      while :; do sleep 0.05; done)");
  start({"--nproc-per-node", "1", "sh", "-c", "sh " + at + "/program " + at + "; exit $?"});
  pids(1);
  send(SIGUSR1);
  EXPECT_EQ(finish(), 1) << err();
  expect_parts(err(), {"rank 0 failed first: exit code 1", "the disk is full"});
}

// While the launcher removes its folder, the job's result is known.
TEST_F(LauncherTest, ASignalAtTheVeryEndDoesNotChangeTheResult) {
  start({"--nproc-per-node", "1", "sh", "-c",
         "cd $(dirname $TORCHELASTIC_ERROR_FILE) && pwd > " + folder_.string() +
             "/at && seq 30000 | xargs touch && touch " + folder_.string() + "/made"});
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_ / "made"); }));
  auto at = read_bytes(folder_ / "at");
  at.pop_back();
  // The folder's own size stays, so the test looks for files.
  ASSERT_TRUE(eventually([&] {
    for (int i = 1; i <= 30000; i += 100)
      if (!fs::exists(at + "/" + std::to_string(i))) return true;
    return false;
  }));
  send(SIGTERM);
  EXPECT_EQ(finish(), 0);
  EXPECT_FALSE(has_temporary_folder());
}

TEST_F(LauncherTest, NamesARankThatEndedWhileOthersWorked) {
  EXPECT_EQ(run_shell(4, "case $RANK in 1|2) exit 0;; 0) sleep 0.3; exit 7;; esac; exec sleep 60"), 7);
  expect_parts(
      err(),
      {"rank 0 failed first: exit code 7",
       "\n  ranks 1 and 2 ended (exit code 0) while the other ranks still worked: did the loop end early there?"});
  EXPECT_EQ(run_shell(2, "exit $((RANK * 7))"), 7);
}

TEST_F(LauncherTest, TellsAFailureOfManyRanksOnce) {
  const auto report = [](const std::string& message) {
    return "echo '{\"message\":{\"message\":\"" + message + "\"}}' > $TORCHELASTIC_ERROR_FILE; exit 1";
  };
  // The other ranks ignore the launcher's SIGTERM, and fail after rank 0 has failed.
  const std::string at = "cd " + folder_.string() + "; ";
  const std::string first = "until [ $(ls ready.* 2>/dev/null | wc -l) = 5 ]; do sleep 0.02; done; touch failed; ";
  const std::string later = "trap '' TERM; touch ready.$RANK; until [ -e failed ]; do sleep 0.02; done; sleep 0.3; ";
  EXPECT_EQ(run_shell(6, at + "case $RANK in 0) " + first + report("no data") + ";; 4) " + later + report("other") +
                             ";; *) " + later + report("no data") + ";; esac"),
            1);
  expect_parts(err(), {"rank 0 failed first: exit code 1", "    no data\n",
                       "\n  then ranks 1-3 and 5: exit code 1: the same\n", "\n  then rank 4: exit code 1: other\n"});
}

// The report does not repeat output that a rank has printed, unless that output went elsewhere.
TEST_F(LauncherTest, AnErrorAppearsOnce) {
  const auto fail = [](const std::string& message) {
    return "echo '[rank'$RANK']: " + message + "' >&2; echo '{\"message\":{\"message\":\"" + message +
           "\",\"extraInfo\":{\"is_printed\":\"1\"}}}' > $TORCHELASTIC_ERROR_FILE; exit 1";
  };
  const std::string script = "if [ $RANK = 1 ]; then " + fail("no data") + "; else trap '' TERM; sleep 0.5; " +
                             "echo '{\"message\":{\"message\":\"rank 1 failed: no data\"}}' > " +
                             "$TORCHELASTIC_ERROR_FILE; exit 1; fi";
  const auto count = [&] {
    std::size_t number = 0;
    for (auto at = err().find("no data"); at != std::string::npos; at = err().find("no data", at + 1)) ++number;
    return number;
  };
  EXPECT_EQ(run_shell(2, script), 1);
  EXPECT_EQ(count(), 1u) << err();
  expect_parts(err(), {"[rank1]: no data\n", "rank 1 failed first: exit code 1 (", "); its error is above\n",
                       "  then rank 0: exit code 1: the same\n"});
  for (const std::vector<std::string>& elsewhere :
       {std::vector<std::string>{"--local-ranks-filter", "0"}, {"--redirects", "3"}, {"--redirects", "1:2"}}) {
    EXPECT_EQ(run_shell(2, script, elsewhere), 1);
    EXPECT_EQ(count(), 1u) << err();
    expect_parts(err(), {"it reported:\n    no data\n"});
  }
  EXPECT_EQ(run_shell(2, script, {"--tee", "3"}), 1);
  EXPECT_EQ(count(), 1u) << err();
}

TEST_F(LauncherTest, NamesTheSignalThatKilledARank) {
  EXPECT_EQ(run_shell(2, "if [ $RANK = 1 ]; then kill -KILL $$; else sleep 60; fi"), 128 + SIGKILL);
  expect_parts(err(), {"rank 1 failed first: killed by SIGKILL: "});
  EXPECT_EQ(run_shell(2, "if [ $RANK = 0 ]; then kill -SEGV $$; else sleep 60; fi"), 128 + SIGSEGV);
  expect_parts(err(), {"rank 0 failed first: killed by SIGSEGV (host "});
}

TEST_F(LauncherTest, TheEarliestReportIsTheCause) {
  // Rank 0 ends first, but rank 1 reports an earlier failure. Rank 2 writes torchrun's format.
  const auto report = [](const std::string& message, const std::string& time) {
    return "echo '{\"message\":{\"message\":\"" + message + "\",\"extraInfo\":{" + time +
           "}}}' > $TORCHELASTIC_ERROR_FILE";
  };
  const auto script = "case $RANK in 0) " + report("lost a peer", "\"timestamp_ns\":\"1700000000000000002\"") +
                      "; exit 3;; 1) " + report("out of luck", "\"timestamp_ns\":\"1700000000000000001\"") +
                      "; sleep 0.1; exit 4;; 2) " + report("later", "\"timestamp\":\"1700000005\"") + "; exit 5;; esac";
  EXPECT_EQ(run_shell(3, script), 4);
  expect_parts(err(), {"rank 1 failed first: exit code 4"});
  expect_parts(err(), {"it reported:\n    out of luck\n  then rank 0: exit code 3: lost a peer\n  then rank 2: "
                       "exit code 5: later\n"});
}

TEST_F(LauncherTest, ADamagedReportIsNone) {
  EXPECT_EQ(run_shell(2,
                      "echo '{\"message\":{\"message\":7' > $TORCHELASTIC_ERROR_FILE; echo words >&2; exit "
                      "$((RANK * 6))"),
            6);
  expect_parts(err(), {"    words\n"});
}

TEST_F(LauncherTest, TakesTheWholeGroupDownAfterAFailure) {
  const auto script = "if [ $RANK = 1 ]; then sleep 60 & echo $! > " + folder_.string() +
                      "/pid_grandchild; echo $$ > " + folder_.string() + "/pid_child; wait; else sleep 0.3; exit 2; fi";
  start({"--nproc-per-node=2", "sh", "-c", script});
  const auto processes = pids(2);
  EXPECT_EQ(finish(), 2);
  EXPECT_TRUE(all_end(processes));
}

TEST_F(LauncherTest, LeavesNothingInTheBackground) {
  EXPECT_EQ(run_shell(1, "sleep 60 & echo $! > " + folder_.string() + "/pid"), 0);
  EXPECT_TRUE(all_end(pids(1)));
}

TEST_F(LauncherTest, KillsWhoIgnoresSigtermAfterTheGrace) {
  const auto script = "trap '' TERM; if [ $RANK = 0 ]; then sleep 0.2; exit 9; fi; echo $$ > " + folder_.string() +
                      "/pid; while :; do sleep 1; done";
  const auto start = steady_clock::now();
  EXPECT_EQ(run_shell(2, script, {"--grace", "0.5"}), 9);
  const auto took = steady_clock::now() - start;
  EXPECT_GE(took, 700ms);
  EXPECT_LT(took, 6s);
  EXPECT_TRUE(all_end(pids(1)));
  EXPECT_EQ(err().find("SIGKILL"), std::string::npos) << err();  // the launcher's own SIGKILL is not the cause
}

TEST_F(LauncherTest, ForwardsSignals) {
  for (const int signal : {SIGTERM, SIGINT}) {
    fs::remove(folder_ / "pid0");
    fs::remove(folder_ / "pid1");
    start({"--nproc-per-node=2", "sh", "-c",
           "trap 'echo stopping; exit 0' TERM INT; echo $$ > " + folder_.string() +
               "/pid$RANK; while :; do sleep 0.05; done"});
    const auto processes = pids(2);
    send(signal);
    EXPECT_EQ(finish(), 128 + signal);
    EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"[rank1] stopping", "stopping"}));
    expect_parts(err(), {signal == SIGTERM ? "stopped by SIGTERM" : "stopped by SIGINT"});
    EXPECT_TRUE(all_end(processes));
  }
}

TEST_F(LauncherTest, ASecondSignalKillsAtOnce) {
  start(
      {"--grace=60", "sh", "-c", "trap '' TERM; echo $$ > " + folder_.string() + "/pid; while :; do sleep 0.05; done"});
  const auto processes = pids(1);
  send(SIGTERM);
  // timeout(1) sends the signal twice at once, and a batch system may do so too. Both count as one request.
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(200ms);
    send(SIGTERM);
  }
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(is_alive(processes[0]));
  std::this_thread::sleep_for(700ms);
  send(SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGTERM);
  EXPECT_TRUE(all_end(processes));
}

// A shell that is about to start a program waits in the kernel ("D") for its child, which is stopped ("T").
bool is_stopped(pid_t pid) {
  const auto stat = read_bytes("/proc/" + std::to_string(pid) + "/stat");
  return stat.find(") T ") != std::string::npos || stat.find(") D ") != std::string::npos;
}

// Stops the job with Ctrl-Z and continues it with fg. Ranks that continued alone would lose their store.
TEST_F(LauncherTest, StopsAndGoesOnWithItsRanks) {
  start({"--nproc-per-node=2", "sh", "-c",
         "echo $$ > " + folder_.string() + "/pid$RANK; for i in $(seq 40); do sleep 0.05; echo $i; done"});
  const auto processes = pids(2);
  send(SIGTSTP);
  EXPECT_TRUE(eventually([&] { return is_stopped(processes[0]) && is_stopped(processes[1]); }));
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(is_stopped(processes[0]) && is_stopped(processes[1]));
  send(SIGCONT);
  EXPECT_EQ(finish(), 0) << err();
}

TEST_F(LauncherTest, SaysWhichRankDidNotEnd) {
  start({"--grace=1", "--nproc-per-node=2", "sh", "-c",
         "echo up; echo $$ > " + folder_.string() + "/pid$RANK; exec sleep 60"});
  pids(2);
  const pid_t processes[] = {std::stoi(read_bytes(folder_ / "pid0")), std::stoi(read_bytes(folder_ / "pid1"))};
  ASSERT_TRUE(eventually([&] { return out().find("[rank1]") != std::string::npos; }));  // all ranks have started
  ASSERT_EQ(kill(processes[1], SIGSTOP), 0);
  ASSERT_TRUE(eventually([&] { return is_stopped(processes[1]); }));  // a process would handle SIGTERM before SIGSTOP
  send(SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGTERM);
  expect_parts(err(), {"tandemrun: rank 1 (pid " + std::to_string(processes[1]) +
                       ") did not end within the grace time because it is suspended, and is killed"});
  EXPECT_EQ(err().find("rank 0 (pid"), std::string::npos) << err();
}

TEST_F(LauncherTest, AFailureIsExplainedThoughASignalFollows) {
  start({"--grace=1", "--nproc-per-node=2", "sh", "-c",
         "if [ $RANK = 1 ]; then exit 7; fi; trap 'echo told' TERM; trap '' INT; while :; do sleep 0.05; "
         "done"});
  ASSERT_TRUE(eventually([&] { return out().find("told") != std::string::npos; }));
  send(SIGINT);
  EXPECT_EQ(finish(), 7);
  expect_parts(err(), {"rank 1 failed first: exit code 7"});
}

TEST_F(LauncherTest, AKilledLauncherLeavesNoProcess) {
  start({"--nproc-per-node=2", "sh", "-c",
         "sleep 60 & echo $! > " + folder_.string() + "/pid_grandchild$RANK; echo $$ > " + folder_.string() +
             "/pid_child$RANK; trap '' TERM HUP INT; wait"});
  const auto processes = pids(4);
  for (const auto process : processes) EXPECT_TRUE(is_alive(process));
  send(SIGKILL);
  EXPECT_EQ(finish(), 1000 + SIGKILL);
  EXPECT_TRUE(all_end(processes));
  EXPECT_TRUE(eventually([&] { return !has_temporary_folder(); }));
}

TEST_F(LauncherTest, TemporaryFoldersGo) {
  const int code = run_shell(2, "echo $TORCHELASTIC_ERROR_FILE; exit $RANK");
  EXPECT_EQ(code, 1);
  expect_parts(out(), {folder_.string() + "/tandemrun-"});
  EXPECT_FALSE(has_temporary_folder());
}

TEST_F(LauncherTest, StartsAllRanksAgainAfterAFailure) {
  const auto script = "echo $RANK in $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; echo $$ > " +
                      folder_.string() +
                      "/pid$RANK.$TORCHELASTIC_RESTART_COUNT; "
                      "case $RANK$TORCHELASTIC_RESTART_COUNT in 00) exec sleep 60;; 10) echo bad luck >&2; "
                      "exit 3;; 01) exit 4;; esac";
  EXPECT_EQ(
      run_shell(2, script, {"--max-restarts", "2", "--log-dir", (folder_ / "logs").string(), "--tee=3", "--rdzv-id=r"}),
      0);
  EXPECT_EQ(sorted_lines(out()),
            (std::vector<std::string>{"0 in 0 of 2", "0 in 1 of 2", "0 in 2 of 2", "[rank1] 1 in 0 of 2",
                                      "[rank1] 1 in 1 of 2", "[rank1] 1 in 2 of 2"}));
  expect_parts(err(), {"rank 1 failed first: exit code 3"});
  expect_parts(err(), {"    bad luck\ntandemrun: all ranks start again: restart 1 of 2\n"});
  expect_parts(err(), {"rank 0 failed first: exit code 4"});
  expect_parts(err(), {"restart 2 of 2\n"});
  EXPECT_TRUE(all_end(pids(6)));
  EXPECT_EQ(read_bytes(folder_ / "logs/r/attempt_0/1/stderr.log"), "bad luck\n");
  EXPECT_EQ(read_bytes(folder_ / "logs/r/attempt_2/1/stdout.log"), "1 in 2 of 2\n");
}

TEST_F(LauncherTest, TheLastFailureDecidesWhenNoRestartIsLeft) {
  EXPECT_EQ(run_shell(1, "exit $((TORCHELASTIC_RESTART_COUNT + 5))", {"--max-restarts=1"}), 6);
  expect_parts(err(), {"restart 1 of 1"});
  EXPECT_EQ(err().find("restart 2"), std::string::npos);
}

TEST_F(LauncherTest, AKilledLauncherLeavesNoProcessAfterARestart) {
  start({"--nproc-per-node=2", "--max-restarts=1", "sh", "-c",
         "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exit 1; fi; sleep 60 & echo $! > " + folder_.string() +
             "/pid$RANK; trap '' TERM HUP INT; wait"});
  const auto processes = pids(2);
  send(SIGKILL);
  EXPECT_EQ(finish(), 1000 + SIGKILL);
  EXPECT_TRUE(all_end(processes));
  EXPECT_TRUE(eventually([&] { return !has_temporary_folder(); }));
}

// Like `pkill -9 -f tandemrun`, kills the launcher and its children whose name or arguments contain tandemrun.
TEST_F(LauncherTest, WhoKillsTheLauncherByNameLeavesNoProcess) {
  start({"--nproc-per-node=2", "sh", "-c",
         "sleep 60 & echo $! > " + folder_.string() + "/pid$RANK; trap '' TERM HUP INT; wait"});
  const auto processes = pids(2);
  const auto own = "/proc/" + std::to_string(pid_);
  std::istringstream children(read_bytes(own + "/task/" + std::to_string(pid_) + "/children"));
  bool has_guardian = false;
  std::vector<pid_t> named;
  for (pid_t child; children >> child;) {
    const auto process = "/proc/" + std::to_string(child);
    const auto name = read_bytes(process + "/comm"), arguments = read_bytes(process + "/cmdline");
    has_guardian |= name == "tandem-guard\n";
    if (name == "tandemrun\n" || arguments.starts_with(tandemrun)) named.push_back(child);
  }
  EXPECT_TRUE(has_guardian);
  send(SIGKILL);
  for (const auto child : named) kill(child, SIGKILL);
  EXPECT_EQ(finish(), 1000 + SIGKILL);
  EXPECT_TRUE(all_end(processes));
  EXPECT_TRUE(eventually([&] { return !has_temporary_folder(); }));
}

// Launchers that were killed together with their guardians leave folders behind. Folders in use are locked.
TEST_F(LauncherTest, RemovesFoldersOfKilledLaunchersAfterAWeek) {
  const auto root = folder_;
  const auto now = fs::file_time_type::clock::now();
  const auto leave = [&](const char* name, int days) {
    fs::create_directories(root / name / "run/attempt_0/0");
    fs::last_write_time(root / name, now - std::chrono::hours(24 * days));
    return (root / name).string();
  };
  const auto old = leave("tandemrun-tmp-aaaaaa", 8), young = leave("tandemrun-tmp-bbbbbb", 6),
             used = leave("tandemrun-tmp-cccccc", 8), logs = leave("tandemrun-dddddd", 8);
  const FileDescriptor lock(::open(used.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_EQ(run_shell(1, "test -d $(dirname $TORCHELASTIC_ERROR_FILE)"), 0) << err();
  EXPECT_FALSE(fs::exists(old));
  for (const auto& folder : {young, used, logs})
    EXPECT_TRUE(fs::exists(fs::path(folder) / "run/attempt_0/0")) << folder;
}

// A training program that a signal stops saves a checkpoint and exits with 128 + the signal. It must not be restarted.
TEST_F(LauncherTest, ARequestToStopIsNoFailureToRestartFrom) {
  EXPECT_EQ(run_shell(2, "exit 143", {"--max-restarts=3"}), 143);
  expect_parts(err(), {"no restart: rank ", "asked to stop by SIGTERM"});
  EXPECT_EQ(run_shell(2, "exit 130", {"--max-restarts=3"}), 130);
  expect_parts(err(), {"asked to stop by SIGINT"});
  EXPECT_EQ(err().find("all ranks start again"), std::string::npos) << err();
}

}  // namespace
}  // namespace tandem::distributed

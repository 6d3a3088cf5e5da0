// Tests how tandemrun handles its ranks' output: lines prefixed with their rank, logs, and omitted output.
#include <tandem/distributed/launch/launcher.h>
#include <tandem/distributed/system/socket.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>

#include "support/launcher_fixture.h"

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using testing::eventually;
using testing::expect_parts;
using testing::LauncherTest;
using testing::read_bytes;
using testing::sorted_lines;
using testing::tandemrun;

TEST_F(LauncherTest, PassesOnWholeLinesOfBothStreams) {
  EXPECT_EQ(run_shell(2, "printf half; sleep 0.1; echo ' and half'; echo to stderr >&2; printf 'no newline'"), 0);
  expect_parts(out(), {"[rank1] half and half\n"});
  expect_parts(out(), {"[rank1] no newline\n"});
  expect_parts(err(), {"[rank1] to stderr\n"});
  expect_parts(err(), {"to stderr\n"});
}

TEST_F(LauncherTest, LosesNothingOfALongOutput) {
  EXPECT_EQ(run_shell(3, "test $RANK = 0 || seq 1 20000"), 0);
  const auto lines = sorted_lines(out());
  const std::set<std::string> distinct(lines.begin(), lines.end());
  EXPECT_EQ(distinct.size(), 40000u);
  EXPECT_EQ(lines.size(), 40000u);
  EXPECT_TRUE(distinct.count("[rank1] 20000") && distinct.count("[rank2] 1"));
}

TEST_F(LauncherTest, ShowsChosenRanksOnly) {
  EXPECT_EQ(run_shell(3, "echo $RANK", {"--local-ranks-filter", "1,2"}), 0);
  EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"[rank1] 1", "[rank2] 2"}));
}

TEST_F(LauncherTest, WritesLogs) {
  const auto logs = folder_ / "logs";
  EXPECT_EQ(run_shell(2, "echo out $RANK; echo err $RANK >&2",
                      {"--log-dir", logs.string(), "--rdzv-id=a/b", "--redirects=1:3", "-t", "0:1"}),
            0);
  const auto attempt = logs / "a_b" / "attempt_0";
  EXPECT_EQ(read_bytes(attempt / "1" / "stdout.log"), "out 1\n");
  EXPECT_EQ(read_bytes(attempt / "1" / "stderr.log"), "err 1\n");
  EXPECT_EQ(read_bytes(attempt / "0" / "stdout.log"), "out 0\n");
  EXPECT_FALSE(fs::exists(attempt / "0" / "stderr.log"));
  EXPECT_EQ(out(), "out 0\n");
  EXPECT_EQ(err(), "err 0\n");
}

TEST_F(LauncherTest, ReportsTheLastLinesOfALog) {
  EXPECT_EQ(run_shell(2, "for i in $(seq 1 30); do echo line $i >&2; done; exit $RANK",
                      {"--log-dir", folder_.string(), "-r3"}),
            1);
  expect_parts(err(), {"    line 21\n"});
  expect_parts(err(), {"    line 30\n"});
  EXPECT_EQ(err().find("line 20\n"), std::string::npos);
}

TEST_F(LauncherTest, ALaterRunKeepsTheLogsOfAnEarlierOne) {
  for (const char* options : {"-r3", "-t3"})
    EXPECT_EQ(
        run_shell(1, std::string("echo with ") + options, {"--log-dir", folder_.string(), "--rdzv-id=run", options}),
        0);
  EXPECT_EQ(read_bytes(folder_ / "run/attempt_0/0/stdout.log"), "with -r3\nwith -t3\n");
}

TEST_F(LauncherTest, AnErrorFileThatIsAFolderOrAPipeIsNone) {
  for (const char* make : {"mkdir", "mkfifo"}) {
    EXPECT_EQ(run_shell(1, std::string(make) + " $TORCHELASTIC_ERROR_FILE; exit 3"), 3) << err();
    expect_parts(err(), {"rank 0 failed first: exit code 3"});
  }
}

TEST_F(LauncherTest, ARunIdCannotLeadOutOfTheLogFolder) {
  EXPECT_EQ(run_shell(1, "echo here", {"--log-dir", (folder_ / "logs").string(), "-r3", "--rdzv-id", ".."}), 0);
  EXPECT_EQ(read_bytes(folder_ / "logs/_../attempt_0/0/stdout.log"), "here\n");
}

// A program that shows its progress with "\r" never ends its line.
TEST_F(LauncherTest, ALongLineInALogDelaysNothing) {
  const auto start = std::chrono::steady_clock::now();
  const auto script = "head -c 60000000 /dev/zero | tr '\\0' x >&2; exit 3";
  EXPECT_EQ(run_shell(1, script, {"--log-dir", folder_.string(), "-r3"}), 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  expect_parts(err(), {"rank 0 failed first: exit code 3", "xxxx"});
  EXPECT_LT(err().size(), 5000u);
}

TEST_F(LauncherTest, ALogFolderThatCannotBeIsAnError) {
  EXPECT_EQ(run({"--log-dir", "/dev/null/logs", "true"}), 1);
  expect_parts(err(), {"/dev/null/logs"});
}

TEST_F(LauncherTest, ALogThatCannotBeWrittenIsNamedWithTheReason) {
  const auto log = folder_ / "logs" / "run" / "attempt_0" / "0" / "stdout.log";
  fs::create_directories(log.parent_path());
  fs::create_symlink("/dev/full", log);
  const auto expected = "tandemrun: the log file " + log.string() + " cannot be written: No space left on device\n";
  const std::vector<std::string> options = {"--log-dir", (folder_ / "logs").string(), "--rdzv-id=run"};

  auto tee = options, redirect = options;
  tee.push_back("--tee=1");
  EXPECT_EQ(run_shell(1, "echo shown", tee), 0);
  EXPECT_EQ(out(), expected + "shown\n");  // the warning appears where the lines are shown

  redirect.push_back("--redirects=3");
  EXPECT_EQ(run_shell(1, "echo lost || exit 1", redirect), 1);
  expect_parts(err(), {expected, "rank 0 failed first: exit code 1"});
  EXPECT_EQ(read_bytes(log.parent_path() / "stderr.log").find("\n\n"), std::string::npos);
}

TEST_F(LauncherTest, EndsThoughNobodyReadsItsOutput) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    dup2(writer.get(), 1);
    dup2(open("/dev/null", O_WRONLY), 2);
    execl(tandemrun.c_str(), "tandemrun", "--nproc-per-node=2", "sh", "-c",
          "if [ $RANK = 0 ]; then sleep 1; exit 3; fi; yes", nullptr);
    _exit(127);
  }
  writer.close();
  int status = 0;
  EXPECT_TRUE(eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

TEST(StreamChoice, IsForAllOrByRank) {
  EXPECT_EQ(parse_stream_choice("-r", "3").of(5), 3);
  const auto choice = parse_stream_choice("-r", "0:1,12:2");
  EXPECT_EQ(choice.of(0), 1);
  EXPECT_EQ(choice.of(12), 2);
  EXPECT_EQ(choice.of(1), 0);
  for (const char* nonsense : {"", "4", "33", "a", ":1", "0:", "0:1,,", "0:1,2", "-1:1"}) {
    EXPECT_THROW(parse_stream_choice("-r", nonsense), Error) << nonsense;
  }
}

// The ranks continue to print after `head` has ended, and then exit with their own codes.
TEST_F(LauncherTest, TheJobGoesOnWhenNobodyReadsItsOutput) {
  const auto folder = folder_.string();
  const auto script =
      "'echo first; echo first >&2; sleep 0.3; for i in 1 2 3; do echo more; echo more >&2; sleep 0.1; "
      "done; touch " +
      folder + "/done$RANK; exit $RANK'";
  const std::vector<std::string> redirections = {"| head -n 1 > /dev/null",
                                                 "2>&1 > " + folder + "/all | head -n 1 > /dev/null", ">&-", "2>&-"};
  for (const auto& redirection : redirections) {
    for (const char* options : {"", "--tee 3", "--redirects 3"}) {
      for (const char* rank : {"0", "1"}) fs::remove(folder_ / (std::string("done") + rank));
      const auto code = folder + "/code";
      const auto line = "(" + tandemrun + " --nproc-per-node 2 " + options + " sh -c " + script + "; echo $? > " +
                        code + ") " + redirection;
      ASSERT_EQ(std::system(line.c_str()), 0) << line;
      EXPECT_EQ(read_bytes(code), "1\n") << line;
      EXPECT_TRUE(fs::exists(folder_ / "done0") && fs::exists(folder_ / "done1")) << line;
    }
  }
}

}  // namespace
}  // namespace tandem::distributed

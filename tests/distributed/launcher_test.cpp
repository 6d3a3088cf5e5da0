// Runs the built tandemrun with small shell commands as ranks.
#include <tandem/core/check.h>
#include <tandem/distributed/cores.h>
#include <tandem/distributed/launcher.h>
#include <tandem/distributed/socket.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <support/temporary_folder.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::expect_parts;

const std::string tandemrun = TANDEM_PROGRAM_DIR "/tandemrun";
const std::string hello_world = TANDEM_PROGRAM_DIR "/hello_world";

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool eventually(const std::function<bool()>& condition) {
  for (const auto deadline = steady_clock::now() + 10s; steady_clock::now() < deadline;
       std::this_thread::sleep_for(10ms)) {
    if (condition()) return true;
  }
  return false;
}

// A zombie that nobody has reaped yet does not count as living.
bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(file)), {});
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z';
}

class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "tandem_launcher_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    if (pid_ > 0) finish();
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
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
    posix_spawn_file_actions_addopen(&actions, 1, (folder_ / "out").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "err").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    const int failure = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure) {
      pid_ = -1;
      throw Error("cannot run " + tandemrun + ": " + std::strerror(failure));
    }
  }

  // A number that is no single process's must never get to kill(2): -1 is every process of the machine.
  void send(int signal) {
    TANDEM_CHECK(pid_ > 1, "tandemrun is not running");
    EXPECT_EQ(kill(pid_, signal), 0);
  }

  // The exit code, or 1000 + the signal that ended tandemrun; 2000 when it did not end.
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

  std::string out() const { return contents(folder_ / "out"); }
  std::string err() const { return contents(folder_ / "err"); }
  // The process numbers that the ranks' scripts wrote to files named pid*, as soon as there are `count`.
  std::vector<pid_t> pids(std::size_t count) const {
    std::vector<pid_t> result;
    EXPECT_TRUE(eventually([&] {
      result.clear();
      for (const auto& entry : fs::directory_iterator(folder_)) {
        const auto text = contents(entry.path());
        const bool is_complete = !text.empty() && text.back() == '\n';
        if (entry.path().filename().string().starts_with("pid") && is_complete)
          result.push_back(std::stoi(text));
      }
      return result.size() == count;
    }));
    return result;
  }
  bool all_end(const std::vector<pid_t>& processes) const {
    return eventually([&] { return std::none_of(processes.begin(), processes.end(), is_alive); });
  }

  bool has_temporary_folder() const {
    return std::any_of(fs::directory_iterator(folder_), {}, [](const auto& entry) {
      return entry.path().filename().string().starts_with("tandemrun-");
    });
  }

  fs::path folder_;
  pid_t pid_ = -1;
};

TEST_F(LauncherTest, HelloWorld) {
  EXPECT_EQ(run({"--nproc-per-node", "4", hello_world}), 0);
  EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"Hello Barry", "[rank1] Hello Alice",
                                                           "[rank2] Hello Barbara", "[rank3] Hello Tom"}));
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, HelloWorldHasFourNames) {
  EXPECT_EQ(run({"--nproc-per-node=5", hello_world}), 1);
  expect_parts(err(), {"[rank4] hello_world: knows 4 names"});
  expect_parts(err(), {"rank 4 failed first: exit code 1"});
}

TEST_F(LauncherTest, SetsTorchrunsVariables) {
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(run_shell(2, "test $RANK = 1 && env", {"--rdzv-id", "my run", "--role=trainer"}),
            1);  // rank 0 fails
  const auto lines = sorted_lines(out());
  const std::set<std::string> variables(lines.begin(), lines.end());
  for (const char* expected :
       {"RANK=1", "LOCAL_RANK=1", "ROLE_RANK=1", "GROUP_RANK=0", "ROLE_NAME=trainer", "WORLD_SIZE=2",
        "LOCAL_WORLD_SIZE=2", "ROLE_WORLD_SIZE=2", "GROUP_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1",
        "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_RUN_ID=my run",
        "TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"}) {
    EXPECT_TRUE(variables.count("[rank1] " + std::string(expected))) << expected;
  }
  const auto threads = std::max(1, available_cores() / 2);
  EXPECT_TRUE(variables.count("[rank1] OMP_NUM_THREADS=" + std::to_string(threads)));
  expect_parts(out(), {"[rank1] TANDEM_STORE_TOKEN="});
  expect_parts(out(), {"[rank1] TORCHELASTIC_ERROR_FILE=/"});
  expect_parts(out(), {"[rank1] PATH="});
}

TEST_F(LauncherTest, KeepsTheUsersThreadCount) {
  setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(run_shell(1, "echo threads $OMP_NUM_THREADS"), 0);
  unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(out(), "threads 7\n");
}

TEST_F(LauncherTest, OpenStoreHasNoToken) {
  EXPECT_EQ(run_shell(1, "echo \"token '$TANDEM_STORE_TOKEN'\"", {"--open-store"}), 0);
  EXPECT_EQ(out(), "token ''\n");
}

// Bash can speak to the store: the greeting, then the token's proof where asked, then a ping.
std::string store_script(bool with_proof) {
  const std::string greeting =
      "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; printf '\\0\\316\\367\\205\\074' >&3; ";
  const std::string proof =
      "n='\\40\\0\\0\\0\\0\\0\\0\\000'; t=$TANDEM_STORE_TOKEN; "
      "printf '\\2\\14\\0\\0\\0\\0\\0\\0\\0tandem/token'$n$t$n$t >&3; head -c 40 <&3 | tail -c 32; echo; ";
  return greeting + (with_proof ? proof : "") + "printf '\\15ping' >&3; head -c 4 <&3";
}

TEST_F(LauncherTest, ServesTheStoreToItsRanks) {
  EXPECT_EQ(run({"bash", "-c", "echo $TANDEM_STORE_TOKEN; " + store_script(true)}), 0);
  std::istringstream lines(out());
  std::string token, reply, ping;
  lines >> token >> reply >> ping;
  EXPECT_EQ(token.size(), 32u);
  EXPECT_EQ(reply, token);
  EXPECT_EQ(ping, "ping");
}

TEST_F(LauncherTest, TellsWhyARankWithoutTheTokenGetsNoAnswer) {
  EXPECT_EQ(run({"bash", "-c", store_script(false)}), 0);
  EXPECT_EQ(out(), "");
  expect_parts(err(), {"--open-store"});
  EXPECT_EQ(run({"--open-store", "bash", "-c", store_script(false)}), 0);
  EXPECT_EQ(out(), "ping");
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, GivesThePortAsked) {
  int port;
  {
    const auto free_port = listen_on("127.0.0.1", 0);
    port = local_port(free_port);
  }
  const auto number = std::to_string(port);
  EXPECT_EQ(run_shell(1, "echo $MASTER_PORT", {"--master-port", number}), 0);
  EXPECT_EQ(out(), number + "\n");
  EXPECT_EQ(run_shell(1, "echo $MASTER_ADDR:$MASTER_PORT",
                      {"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:" + number}),
            0);
  EXPECT_EQ(out(), "localhost:" + number + "\n");
  const auto free_again = listen_on("127.0.0.1", port);  // the launcher has given it back
  EXPECT_EQ(run_shell(1, "echo $MASTER_PORT", {"--master-port", number}), 1);
  expect_parts(err(), {"127.0.0.1:" + number});
  expect_parts(err(), {"in use"});
}

TEST_F(LauncherTest, PassesArgumentsOn) {
  EXPECT_EQ(run({"--standalone", "--no-python", "printf", "%s|", "--nproc_per_node", "-t", "--", "a b"}), 0);
  EXPECT_EQ(out(), "--nproc_per_node|-t|--|a b|");
  EXPECT_EQ(run({"--", "printf", "x"}), 0);
  EXPECT_EQ(out(), "x");
}

TEST_F(LauncherTest, PassesOnWholeLinesOfBothStreams) {
  EXPECT_EQ(run_shell(2, "printf half; sleep 0.1; echo ' and half'; echo to stderr >&2; printf 'no newline'"),
            0);
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

TEST_F(LauncherTest, ExitCodeIsThatOfTheFirstFailure) {
  const auto start = steady_clock::now();
  EXPECT_EQ(run_shell(3, "if [ $RANK = 1 ]; then echo the reason >&2; exit 7; else sleep 60; fi"), 7);
  EXPECT_LT(steady_clock::now() - start, 5s);
  expect_parts(err(), {"tandemrun: rank 1 failed first: exit code 7 (host "});
  expect_parts(err(), {"last lines of its stderr:\n    the reason\n"});
  EXPECT_EQ(err().find("then rank"), std::string::npos) << err();  // the others were only told to stop
}

TEST_F(LauncherTest, NamesARankThatEndedWhileOthersWorked) {
  EXPECT_EQ(run_shell(4, "case $RANK in 1|2) exit 0;; 0) sleep 0.3; exit 7;; esac; exec sleep 60"), 7);
  expect_parts(
      err(), {"rank 0 failed first: exit code 7",
              "\n  ranks 1-2 ended (exit code 0) while others still worked: did the loop end early there?"});
  EXPECT_EQ(run_shell(2, "exit $((RANK * 7))"), 7);
}

TEST_F(LauncherTest, TellsAFailureOfManyRanksOnce) {
  const auto report = [](const std::string& message) {
    return "echo '{\"message\":{\"message\":\"" + message + "\"}}' > $TORCHELASTIC_ERROR_FILE; exit 1";
  };
  EXPECT_EQ(run_shell(6, "case $RANK in 0) " + report("no data") + ";; 4) sleep 0.1; " + report("other") +
                             ";; *) sleep 0.1; " + report("no data") + ";; esac"),
            1);
  expect_parts(err(),
               {"rank 0 failed first: exit code 1", "    no data\n",
                "\n  then ranks 1-3, 5: exit code 1: the same\n", "\n  then rank 4: exit code 1: other\n"});
}

TEST_F(LauncherTest, NamesTheSignalThatKilledARank) {
  EXPECT_EQ(run_shell(2, "if [ $RANK = 1 ]; then kill -KILL $$; else sleep 60; fi"), 128 + SIGKILL);
  expect_parts(err(), {"rank 1 failed first: killed by SIGKILL: "});
  EXPECT_EQ(run_shell(2, "if [ $RANK = 0 ]; then kill -SEGV $$; else sleep 60; fi"), 128 + SIGSEGV);
  expect_parts(err(), {"rank 0 failed first: killed by SIGSEGV (host "});
}

TEST_F(LauncherTest, TheEarliestReportIsTheCause) {
  // Rank 0 ends first, but rank 1 says it failed before that; rank 2 writes torchrun's own form.
  const auto report = [](const std::string& message, const std::string& time) {
    return "echo '{\"message\":{\"message\":\"" + message + "\",\"extraInfo\":{" + time +
           "}}}' > $TORCHELASTIC_ERROR_FILE";
  };
  const auto script =
      "case $RANK in 0) " + report("lost a peer", "\"timestamp_ns\":\"1700000000000000002\"") +
      "; exit 3;; 1) " + report("out of luck", "\"timestamp_ns\":\"1700000000000000001\"") +
      "; sleep 0.1; exit 4;; 2) " + report("later", "\"timestamp\":\"1700000005\"") + "; exit 5;; esac";
  EXPECT_EQ(run_shell(3, script), 4);
  expect_parts(err(), {"rank 1 failed first: exit code 4"});
  expect_parts(err(),
               {"it reported:\n    out of luck\n  then rank 0: exit code 3: lost a peer\n  then rank 2: "
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
                      "/pid_grandchild; echo $$ > " + folder_.string() +
                      "/pid_child; wait; else sleep 0.3; exit 2; fi";
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
  const auto script = "trap '' TERM; if [ $RANK = 0 ]; then sleep 0.2; exit 9; fi; echo $$ > " +
                      folder_.string() + "/pid; while :; do sleep 1; done";
  const auto start = steady_clock::now();
  EXPECT_EQ(run_shell(2, script, {"--grace", "0.5"}), 9);
  const auto took = steady_clock::now() - start;
  EXPECT_GE(took, 700ms);
  EXPECT_LT(took, 6s);
  EXPECT_TRUE(all_end(pids(1)));
  EXPECT_EQ(err().find("SIGKILL"), std::string::npos) << err();  // ours, not the cause
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
  start({"--grace=60", "sh", "-c",
         "trap '' TERM; echo $$ > " + folder_.string() + "/pid; while :; do sleep 0.05; done"});
  const auto processes = pids(1);
  send(SIGTERM);
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(is_alive(processes[0]));
  send(SIGTERM);
  EXPECT_EQ(finish(), 128 + SIGTERM);
  EXPECT_TRUE(all_end(processes));
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

TEST_F(LauncherTest, AMissingProgramIsNamed) {
  EXPECT_EQ(run({"--nproc-per-node=2", "no_such_program"}), 1);
  expect_parts(err(), {"cannot run no_such_program: it is in no folder of PATH"});
  EXPECT_EQ(run({"./no/such/program"}), 1);
  expect_parts(err(), {"cannot run ./no/such/program: No such file"});
  std::ofstream(folder_ / "train.py") << "print()\n";
  EXPECT_EQ(run({(folder_ / "train.py").string()}), 1);
  expect_parts(err(), {"train.py: Permission denied"});
  fs::permissions(folder_ / "train.py", fs::perms::owner_all);
  EXPECT_EQ(run({"--nproc-per-node=2", (folder_ / "train.py").string()}), 1);
  expect_parts(err(), {"train.py: Exec format error"});
  EXPECT_EQ(run({folder_.string()}), 1);
  expect_parts(err(), {"not a file"});
}

TEST_F(LauncherTest, WrongUsageIsNamed) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--frobnicate", "true"}, "--frobnicate"},
      {{"-x", "true"}, "-x"},
      {{"--nproc-per-node", "0", "true"}, "--nproc-per-node 0"},
      {{"--nproc-per-node", "many", "true"}, "--nproc-per-node many"},
      {{"--nproc-per-node=-3", "true"}, "--nproc-per-node -3"},
      {{"--nproc-per-node=gpu", "true"}, "--nproc-per-node gpu"},
      {{"--nnodes=2", "true"}, "--nnodes 2"},
      {{"--nnodes=0", "true"}, "--nnodes 0"},
      {{"--nnodes=3:2", "true"}, "--nnodes 3:2"},
      {{"--nnodes=2:", "true"}, "--nnodes 2:"},
      {{"--nnodes=1:2", "--master-addr=a", "true"},
       "--nnodes 1:2: a range of hosts needs --rdzv-backend c10d"},
      {{"--nnodes=2", "--standalone", "--master-addr=a", "true"}, "--standalone --nnodes 2"},
      {{"--nnodes=2", "--node-rank=2", "--master-addr=a", "true"}, "--node-rank 2"},
      {{"--rdzv-conf=timeout=soon", "true"}, "--rdzv-conf timeout=soon"},
      {{"--rdzv-conf=patience=5", "true"}, "--rdzv-conf patience=5"},
      {{"--rdzv-conf=is_host=maybe", "true"}, "is_host=maybe"},
      {{"--rdzv-endpoint=[::1", "true"}, "--rdzv-endpoint [::1"},
      {{"--max-restarts=-1", "true"}, "--max-restarts"},
      {{"--monitor-interval=0", "true"}, "--monitor-interval"},
      {{"-m", "package.module"}, "--module"},
      {{"--node-rank=1", "true"}, "--node-rank 1"},
      {{"--master-port=70000", "true"}, "--master-port"},
      {{"--rdzv-endpoint=host:port", "true"}, "--rdzv-endpoint host:port"},
      {{"--rdzv-endpoint=localhost:0", "--master-port=5", "true"}, "--master-port"},
      {{"--rdzv-backend=etcd", "true"}, "--rdzv-backend"},
      {{"--grace=-1", "true"}, "--grace"},
      {{"--redirects=4", "true"}, "--redirects 4"},
      {{"--tee=0:1,x:2", "true"}, "--tee 0:1,x:2"},
      {{"--local-ranks-filter=1", "true"}, "--local-ranks-filter 1"},
      {{"--bind=sockets", "true"}, "--bind"},
      {{"--nproc-per-node"}, "--nproc-per-node"},
      {{"--standalone"}, "no program"},
      {{}, "no program"},
  };
  for (const auto& [arguments, expected] : cases) {
    EXPECT_EQ(run(arguments), 2) << expected;
    expect_parts(err(), {expected});
    EXPECT_EQ(out(), "");
  }
}

TEST_F(LauncherTest, HelpIsNoError) {
  EXPECT_EQ(run({"--help"}), 0);
  expect_parts(out(), {"--nproc-per-node"});
}

TEST_F(LauncherTest, AcceptsTorchrunsOtherOptions) {
  EXPECT_EQ(
      run_shell(1, "true",
                {"--nnodes=1:1", "--node_rank=0", "--rdzv-conf", "timeout=900,is_host=1",
                 "--monitor-interval=1", "--start-method=fork", "--use-env", "--master-addr=localhost"}),
      0);
  EXPECT_EQ(err(), "");
}

TEST_F(LauncherTest, TakesDefaultsFromTheEnvironment) {
  setenv("PET_NPROC_PER_NODE", "2", 1);
  setenv("PET_ROLE", "trainer", 1);
  setenv("PET_STANDALONE", "1", 1);
  EXPECT_EQ(run({"sh", "-c", "echo $ROLE_NAME $WORLD_SIZE"}), 0) << err();
  EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"[rank1] trainer 2", "trainer 2"}));
  EXPECT_EQ(run({"--nproc_per_node=1", "sh", "-c", "echo $ROLE_NAME $WORLD_SIZE"}), 0);
  EXPECT_EQ(out(), "trainer 1\n");
  setenv("PET_NPROC_PER_NODE", "few", 1);
  EXPECT_EQ(run({"true"}), 2);
  expect_parts(err(), {"--nproc-per-node few"});
  for (const char* name : {"PET_NPROC_PER_NODE", "PET_ROLE", "PET_STANDALONE"}) unsetenv(name);
}

TEST_F(LauncherTest, StartsAllRanksAgainAfterAFailure) {
  const auto script = "echo $RANK in $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; echo $$ > " +
                      folder_.string() +
                      "/pid$RANK.$TORCHELASTIC_RESTART_COUNT; "
                      "case $RANK$TORCHELASTIC_RESTART_COUNT in 00) exec sleep 60;; 10) echo bad luck >&2; "
                      "exit 3;; 01) exit 4;; esac";
  EXPECT_EQ(
      run_shell(2, script,
                {"--max-restarts", "2", "--log-dir", (folder_ / "logs").string(), "--tee=3", "--rdzv-id=r"}),
      0);
  EXPECT_EQ(sorted_lines(out()),
            (std::vector<std::string>{"0 in 0 of 2", "0 in 1 of 2", "0 in 2 of 2", "[rank1] 1 in 0 of 2",
                                      "[rank1] 1 in 1 of 2", "[rank1] 1 in 2 of 2"}));
  expect_parts(err(), {"rank 1 failed first: exit code 3"});
  expect_parts(err(), {"    bad luck\ntandemrun: all ranks start again: restart 1 of 2\n"});
  expect_parts(err(), {"rank 0 failed first: exit code 4"});
  expect_parts(err(), {"restart 2 of 2\n"});
  EXPECT_TRUE(all_end(pids(6)));
  EXPECT_EQ(contents(folder_ / "logs/r/attempt_0/1/stderr.log"), "bad luck\n");
  EXPECT_EQ(contents(folder_ / "logs/r/attempt_2/1/stdout.log"), "1 in 2 of 2\n");
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

TEST_F(LauncherTest, WritesLogs) {
  const auto logs = folder_ / "logs";
  EXPECT_EQ(run_shell(2, "echo out $RANK; echo err $RANK >&2",
                      {"--log-dir", logs.string(), "--rdzv-id=a/b", "--redirects=1:3", "-t", "0:1"}),
            0);
  const auto attempt = logs / "a_b" / "attempt_0";
  EXPECT_EQ(contents(attempt / "1" / "stdout.log"), "out 1\n");
  EXPECT_EQ(contents(attempt / "1" / "stderr.log"), "err 1\n");
  EXPECT_EQ(contents(attempt / "0" / "stdout.log"), "out 0\n");
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

TEST_F(LauncherTest, ALogFolderThatCannotBeIsAnError) {
  EXPECT_EQ(run({"--log-dir", "/dev/null/logs", "true"}), 1);
  expect_parts(err(), {"/dev/null/logs"});
}

TEST_F(LauncherTest, ShowsChosenRanksOnly) {
  EXPECT_EQ(run_shell(3, "echo $RANK", {"--local-ranks-filter", "1,2"}), 0);
  EXPECT_EQ(sorted_lines(out()), (std::vector<std::string>{"[rank1] 1", "[rank2] 2"}));
}

TEST_F(LauncherTest, BindsCores) {
  EXPECT_EQ(run_shell(2, "grep Cpus_allowed_list /proc/self/status", {"--bind", "cores"}), 0);
  const auto lines = sorted_lines(out());
  ASSERT_EQ(lines.size(), 2u);
  if (available_cores() > 1) {
    EXPECT_NE(lines[0].substr(lines[0].find("Cpus")), lines[1].substr(lines[1].find("Cpus")));
  }
}

TEST_F(LauncherTest, TemporaryFoldersGo) {
  const int code = run_shell(2, "echo $TORCHELASTIC_ERROR_FILE; exit $RANK");
  EXPECT_EQ(code, 1);
  expect_parts(out(), {folder_.string() + "/tandemrun-"});
  EXPECT_FALSE(has_temporary_folder());
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

TEST(Launch, RefusesNonsense) {
  EXPECT_THROW(launch({}, {}), Error);
  LaunchOptions options;
  options.processes = 0;
  EXPECT_THROW(launch(options, {"true"}), Error);
}

TEST(Launch, GivesSignalHandlersBack) {
  struct sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  EXPECT_EQ(launch({}, {"true"}), 0);
  EXPECT_EQ(launch({}, {"false"}), 1);
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace tandem::distributed

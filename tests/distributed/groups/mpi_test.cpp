// Tests the mpi backend, in processes that mpirun starts. They run mnist_ddp, or this program with the test suites
// UnderMpirun. The starting process serves the store.
#include <tandem/distributed/store/tcp_store.h>

#include <gtest/gtest.h>
#include <support/process.h>
#include <support/ranks.h>
#include <support/sanitizers.h>
#include <unistd.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Group;
using testing::Outcome;

bool is_stuck = false;

#ifdef TANDEM_MPIRUN
const std::string mpirun = TANDEM_MPIRUN;
#else
const std::string mpirun;
#endif

// Returns the reason why these tests can't run, or "" if they can.
std::string mpi_is_missing() {
  if (mpirun.empty()) return "NOT RUN: this build has no MPI (libopenmpi-dev, openmpi-bin)";
  if (access(mpirun.c_str(), X_OK) != 0) return "NOT RUN: " + mpirun + " is not there (openmpi-bin)";
  const auto version = testing::run_process({mpirun, "--version"}).out;
  return version.find("open-mpi.org") == std::string::npos ? "NOT RUN: " + mpirun + " is not Open MPI's" : "";
}

// If a process exits without MPI_Finalize, Open MPI's launcher may wait forever, because PMIx 4.2 locks a mutex that it
// has freed. All of the launcher's processes have ended by then.
class HasNoProcessesLeft {
 public:
  bool operator()(pid_t launcher) {
    const bool has_some = has_children(launcher);
    if (has_some) has_started_ = true;
    if (has_some || !has_started_) since_ = std::chrono::steady_clock::now();
    if (std::chrono::steady_clock::now() - since_ <= seconds(5)) return false;
    std::cout << "note: " << mpirun << " waits though all of its processes have ended; it is killed\n";
    return true;
  }

 private:
  bool has_started_ = false;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();

  static bool runs(const std::string& process) {
    std::ifstream status("/proc/" + process + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("State:")) return line.find('Z') == std::string::npos;
    return false;
  }

  static bool has_children(pid_t process) {
    std::error_code error;
    const std::string threads = "/proc/" + std::to_string(process) + "/task";
    for (const auto& thread : std::filesystem::directory_iterator(threads, error)) {
      std::ifstream children(thread.path() / "children");
      for (std::string child; children >> child;)
        if (runs(child)) return true;
    }
    return false;
  }
};

Outcome run_mpi(int processes, std::vector<std::string> program, std::map<std::string, std::string> variables) {
  std::vector<std::string> command = {mpirun, "--allow-run-as-root",    "--oversubscribe", "--bind-to", "none",
                                      "-n",   std::to_string(processes)};
  command.insert(command.end(), program.begin(), program.end());
  variables.emplace("OMP_NUM_THREADS", "1");
  variables.emplace("LSAN_OPTIONS", "detect_leaks=0");  // Open MPI does not free all of its memory
  return testing::run_process(command, variables, seconds(120), HasNoProcessesLeft());
}

Outcome run_tests(int processes, const std::string& filter) {
  TcpStoreServer server({});
  return run_mpi(
      processes,
      {std::filesystem::read_symlink("/proc/self/exe"), "--gtest_color=no", "--gtest_filter=UnderMpirun/" + filter},
      {{"TANDEM_TEST_STORE_PORT", std::to_string(server.port())}});
}

class Mpi : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = mpi_is_missing();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Mpi, does_all_that_a_process_group_does) {
  for (const int processes : {1, 2, 3, 4}) {
    const auto outcome = run_tests(processes, "ProcessGroupOfSize.*");
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    const std::regex passed("\\[  PASSED  \\] [1-9][0-9]* tests");
    EXPECT_EQ(std::distance(std::sregex_iterator(outcome.out.begin(), outcome.out.end(), passed), {}), processes)
        << outcome.out;
  }
}

// Each of these tests breaks its group, so each one runs in new processes.
class MpiRank : public ::testing::TestWithParam<int> {
 protected:
  // If its group fails, a rank reports the error and fails, as a program would. mpirun then ends the other ranks.
  static void run(const std::function<void(Group)>& body, milliseconds timeout = seconds(30)) {
    const auto rank = std::string(std::getenv("OMPI_COMM_WORLD_RANK"));
    const auto ended = testing::message_of(testing::run_mpi_rank(body, timeout));
    std::cout << "ended: rank " + rank + ": " + ended + "\n" << std::flush;
    EXPECT_EQ(ended, "");
  }
};
std::vector<int> mpi_sizes() {
  return testing::mpi_size() > 0 ? std::vector<int>{testing::mpi_size()} : std::vector<int>{};
}
INSTANTIATE_TEST_SUITE_P(UnderMpirun, MpiRank, ::testing::ValuesIn(mpi_sizes()));
// Outside of mpirun, these tests do not exist.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MpiRank);

Array ones(std::int64_t n, DType dtype = DType::f32) {
  auto array = Array::empty({n}, dtype);
  array.fill(1);
  return array;
}

TEST_P(MpiRank, leaves) {
  run([](Group group) {
    group->barrier()->wait();
    if (group->rank() == 1) throw Error("bye");
    group->all_reduce(ones(10), ReduceOp::sum, "gradient bucket 0")->wait();
  });
}

TEST_F(Mpi, names_the_rank_that_went_away) {
  const auto outcome = run_tests(3, "MpiRank.leaves/*");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 20 * testing::sanitizer_factor);
  const std::regex named("ended: rank [02]: .*rank 1 \\(.*closed the connection during all_reduce 'gradient bucket 0'");
  EXPECT_TRUE(std::regex_search(outcome.out, named)) << outcome.out << outcome.err;
}

TEST_P(MpiRank, differs) {
  run([](Group group) {
    group->barrier()->wait();
    if (group->rank() == 1) {
      group->all_reduce(ones(1100000), ReduceOp::sum, "eleven")->wait();
    } else {
      group->all_reduce(ones(10, DType::f64), ReduceOp::max, "ten")->wait();
    }
  });
}

TEST_F(Mpi, operations_that_differ_are_named) {
  const auto outcome = run_tests(2, "MpiRank.differs/*");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 20 * testing::sanitizer_factor);
  const std::regex named("ended: rank [01]: the ranks do not run the same operations: .*rank [01] \\(.*rank [01] \\(");
  EXPECT_TRUE(std::regex_search(outcome.out, named)) << outcome.out << outcome.err;
  for (const auto* signature : {"all_reduce(sum) of f32 (1100000)", "all_reduce(max) of f64 (10)"})
    EXPECT_NE(outcome.out.find(signature), std::string::npos) << outcome.out << outcome.err;
}

// Rank 1 never returns from the call that creates the communicator.
TEST_P(MpiRank, is_stuck_in_connecting) {
  is_stuck = std::string(std::getenv("OMPI_COMM_WORLD_RANK")) == "1";
  run([](Group) {}, seconds(2));
}

TEST_F(Mpi, connecting_has_a_deadline) {
  const auto outcome = run_tests(3, "MpiRank.is_stuck_in_connecting/*");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 25 * testing::sanitizer_factor);
  const std::regex named("ended: rank [012]: .*MPI has not connected the 3 ranks of a group within 2 s");
  EXPECT_TRUE(std::regex_search(outcome.out, named)) << outcome.out << outcome.err;
}

TEST_P(MpiRank, is_late) {
  run(
      [](Group group) {
        group->barrier()->wait();
        if (group->rank() == 1) {
          group->store()->wait({"late"}, seconds(60));  // longer than the timeout of other waits
          return;
        }
        struct Late {
          Group group;
          ~Late() { group->store()->set("late", "1"); }
        } late{group};
        group->all_reduce(ones(100000))->wait();
      },
      milliseconds(500));
}

TEST_F(Mpi, names_the_rank_that_does_not_come_in_time) {
  const auto outcome = run_tests(2, "MpiRank.is_late/*");
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.seconds, 20 * testing::sanitizer_factor);
  const std::regex named("ended: rank 0: rank 1 \\(.*did not reach all_reduce.* within 0.5 s");
  EXPECT_TRUE(std::regex_search(outcome.out, named)) << outcome.out << outcome.err;
}

TEST_F(Mpi, a_process_that_mpirun_did_not_start_is_told_so) {
  TcpStoreServer server({});
  const auto outcome = testing::run_process(
      {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", "2", TANDEM_PROGRAM_DIR "/mnist_ddp", "--backend", "mpi",
       "--device", "cpu", "--data", TANDEM_SOURCE_DIR "/data/sample", "--epochs", "0"},
      {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("start the program with mpirun"), std::string::npos) << outcome.err;
}

TEST_F(Mpi, mnist_ddp_trains_as_over_shared_memory) {
  std::vector<std::string> program = {TANDEM_PROGRAM_DIR "/mnist_ddp",
                                      "--device",
                                      "cpu",
                                      "--data",
                                      TANDEM_SOURCE_DIR "/data/sample",
                                      "--epochs",
                                      "1",
                                      "--max-steps",
                                      "4"};
  std::vector<std::string> shared = {TANDEM_PROGRAM_DIR "/tandemrun", "--nproc-per-node", "2"};
  shared.insert(shared.end(), program.begin(), program.end());
  const auto expected = testing::run_process(shared, {{"OMP_NUM_THREADS", "1"}});
  ASSERT_EQ(expected.code, 0) << expected.out << expected.err;

  program.insert(program.end(), {"--backend", "mpi"});
  const auto outcome = run_mpi(2, program, {});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;

  const auto loss = [](const std::string& text) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, std::regex("Total loss: \\S+"))) << text;
    return found.str();
  };
  EXPECT_EQ(loss(outcome.out), loss(expected.out));
}

}  // namespace
}  // namespace tandem::distributed

// Replaces MPI's function. The arguments are Open MPI's pointers.
extern "C" int MPI_Comm_create_group(void* comm, void* group, int tag, void** made) {
  using Function = int (*)(void*, void*, int, void**);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "MPI_Comm_create_group"));
  if (tandem::distributed::is_stuck) std::this_thread::sleep_for(std::chrono::minutes(10));
  return next(comm, group, tag, made);
}

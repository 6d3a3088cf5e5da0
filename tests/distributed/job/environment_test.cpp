#include <tandem/core/base/check.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/launcher_kind.h>
#include <tandem/distributed/job/slurm.h>

#include <gtest/gtest.h>
#include <support/temporary_folder.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tandem::distributed {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::expect_parts;

Environment read(const Variables& variables) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables torchrun = {{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"GROUP_RANK", "1"},
                            {"GROUP_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "run"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                            {"TANDEM_STORE_TOKEN", "a secret"}};

TEST(Environment, NothingSetIsAJobOfOne) {
  const auto environment = read({});
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.world_size, 1);
  EXPECT_EQ(environment.local_world_size, 1);
  EXPECT_TRUE(environment.master_addr.empty());
  EXPECT_EQ(read({{"RANK", ""}, {"MASTER_PORT", "29500"}}).world_size, 1);
}

TEST(Environment, ReadsTorchrunsVariables) {
  const auto environment = read(torchrun);
  EXPECT_EQ(environment.rank, 5);
  EXPECT_EQ(environment.world_size, 8);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world_size, 4);
  EXPECT_EQ(environment.node_rank, 1);
  EXPECT_EQ(environment.node_count, 2);
  EXPECT_EQ(environment.master_addr, "node0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_EQ(environment.run_id, "run");
  EXPECT_EQ(environment.restart_count, 2);
  EXPECT_TRUE(environment.uses_agent_store);
  EXPECT_EQ(environment.store_token, "a secret");
}

TEST(Environment, TheFourVariablesSetByHandAreEnough) {
  const auto environment =
      read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.local_rank, 0);
  EXPECT_FALSE(environment.uses_agent_store);
}

TEST(Environment, NonsenseIsAnErrorThatNamesTheVariable) {
  const std::pair<const char*, const char*> cases[] = {{"RANK", "8"},
                                                       {"RANK", "-1"},
                                                       {"RANK", "one"},
                                                       {"RANK", "1 "},
                                                       {"RANK", ""},
                                                       {"WORLD_SIZE", ""},
                                                       {"WORLD_SIZE", "0"},
                                                       {"WORLD_SIZE", "99999999999"},
                                                       {"LOCAL_RANK", "4"},
                                                       {"LOCAL_RANK", "x"},
                                                       {"LOCAL_WORLD_SIZE", "9"},
                                                       {"MASTER_PORT", "0"},
                                                       {"MASTER_PORT", "65536"},
                                                       {"MASTER_PORT", ""},
                                                       {"MASTER_ADDR", ""},
                                                       {"GROUP_RANK", "-2"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "x"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "yes"}};
  for (const auto& [name, value] : cases) {
    auto variables = torchrun;
    variables[name] = value;
    try {
      read(variables);
      ADD_FAILURE() << name << "=" << value << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

// The variables that Open MPI 4 sets for rank 3 of 4 on the second of two hosts.
const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                            {"PMIX_NAMESPACE", "1234"},
                            {"MASTER_ADDR", "node0"}};

// The variables that srun sets for task 5 of 7, on the second of two nodes.
const Variables slurm = {{"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "5"},
                         {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_NTASKS", "7"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                         {"SLURM_STEP_NODELIST", "gpu[07-08]"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

std::string error_of(const Variables& variables) {
  return testing::error_of([&] { read(variables); });
}

TEST(Environment, ReadsOpenMpisVariables) {
  const auto environment = read(open_mpi);
  EXPECT_EQ(environment.launcher, "Open MPI");
  EXPECT_EQ(environment.rank, 3);
  EXPECT_EQ(environment.world_size, 4);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world_size, 2);
  EXPECT_EQ(environment.master_addr, "node0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_FALSE(environment.knows_host);  // Open MPI does not say which host it is
  EXPECT_FALSE(environment.uses_agent_store);
}

TEST(Environment, MpiOnOneHostNeedsNoAddress) {
  const Variables one_host =
      with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"MASTER_ADDR", ""}});
  const auto environment = read(one_host);
  EXPECT_TRUE(environment.knows_host);
  EXPECT_EQ(environment.master_addr, "127.0.0.1");
  EXPECT_GE(environment.master_port, 61440);
  EXPECT_NE(environment.master_port, read(with(one_host, {{"PMIX_NAMESPACE", "1235"}})).master_port);
  EXPECT_EQ(read(with(one_host, {{"MASTER_PORT", "1234"}})).master_port, 1234);
}

TEST(Environment, MpiOnSeveralHostsSaysWhatToSet) {
  const auto error = error_of(with(open_mpi, {{"MASTER_ADDR", ""}}));
  expect_parts(error, {"MASTER_ADDR is not set"});
  expect_parts(error, {"mpirun -x MASTER_ADDR=HOST"});
  const Variables variables = with(open_mpi, {{"MASTER_ADDR", ""}});
  const auto by_file = read_environment(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      false);
  EXPECT_EQ(by_file.rank, 3);  // the ranks meet in a file, so they need no address
}

TEST(Environment, ReadsPmisVariables) {
  const Variables hydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const auto environment = read(hydra);
  EXPECT_EQ(environment.launcher, "MPICH");
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.master_addr, "127.0.0.1");
  const auto bare = read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "a"}});
  EXPECT_FALSE(bare.knows_host);
  // With srun --mpi=pmi2, Slurm's variables name the hosts.
  const auto both = read(with(slurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}, {"MASTER_ADDR", "a"}}));
  EXPECT_EQ(both.launcher, "MPICH");
  EXPECT_EQ(both.local_rank, 1);
  EXPECT_EQ(both.local_world_size, 3);
}

TEST(Environment, ReadsMvapichsVariables) {
  const auto environment = read({{"MV2_COMM_WORLD_RANK", "1"},
                                 {"MV2_COMM_WORLD_SIZE", "2"},
                                 {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(environment.launcher, "MVAPICH2");
  EXPECT_EQ(environment.local_rank, 1);
}

TEST(Environment, ReadsSlurmsVariables) {
  const auto environment = read(slurm);
  EXPECT_EQ(environment.launcher, "Slurm");
  EXPECT_EQ(environment.rank, 5);
  EXPECT_EQ(environment.world_size, 7);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world_size, 3);
  EXPECT_EQ(environment.node_rank, 1);
  EXPECT_EQ(environment.node_count, 2);
  EXPECT_TRUE(environment.knows_host);
  EXPECT_EQ(environment.master_addr, "gpu07");
  EXPECT_EQ(environment.master_port, port_for(4711, 2));
  EXPECT_EQ(environment.run_id, "4711.2");
  EXPECT_TRUE(environment.note.empty());
  EXPECT_EQ(read(with(slurm, {{"MASTER_ADDR", "b"}, {"MASTER_PORT", "5"}})).master_addr, "b");
  const auto one_node = read(with(slurm, {{"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "7"}}));
  EXPECT_EQ(one_node.master_addr, "127.0.0.1");
}

TEST(Environment, SlurmCountsInJobStepsOnly) {
  // A shell of sbatch or salloc has the job's variables. Every process that mpirun starts there has SLURM_PROCID=0.
  const Variables batch = {
      {"SLURM_JOB_ID", "4711"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(read(batch).world_size, 1);
  expect_parts(read(batch).note, {"start it with srun"});
  EXPECT_EQ(read(with(open_mpi, batch)).rank, 3);
  // The step that salloc makes for its shell is not a job step either.
  const auto shell = read(with(slurm, {{"SLURM_STEP_ID", "4294967290"}}));
  EXPECT_EQ(shell.world_size, 1);
  expect_parts(shell.note, {"7 tasks"});
  EXPECT_TRUE(read({{"SLURM_JOB_ID", "4711"}, {"SLURM_NTASKS", "1"}}).note.empty());
  // The shell of `srun -n 7 --pty bash` is a task. The programs that the user starts there are not.
  const auto pty = with(slurm, {{"SLURM_PTY_PORT", "41234"}});
  EXPECT_EQ(read(pty).world_size, 1);
  expect_parts(read(pty).note, {"7 tasks", "start it with srun"});
  // A process that srun itself starts is a task, even with a terminal (--pty) or with a variable of the surrounding
  // shell. Only the first process of a host has a terminal.
  EXPECT_EQ(read(with(pty, {{"SLURM_TASK_PID", std::to_string(getpid())}})).world_size, 7);
  EXPECT_EQ(read(with(pty, {{"SLURM_TASK_PID", "1"}})).world_size, 7);
}

TEST(Environment, TheFirstLauncherDecides) {
  EXPECT_EQ(read(with(with(slurm, open_mpi), torchrun)).launcher, "torchrun");
  EXPECT_EQ(read(with(slurm, open_mpi)).launcher, "Open MPI");
  EXPECT_EQ(read(with(slurm, torchrun)).local_rank, 1);
}

TEST(Environment, ContradictionsOfOtherLaunchersAreNamed) {
  expect_parts(error_of(with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", ""}})), {"OMPI_COMM_WORLD_SIZE is not set"});
  expect_parts(error_of(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "4"}})), {"OMPI_COMM_WORLD_RANK is \"4\""});
  expect_parts(error_of(with(slurm, {{"SLURM_PROCID", "7"}})), {"SLURM_PROCID is \"7\""});
  expect_parts(error_of(with(slurm, {{"SLURM_PROCID", ""}})), {"SLURM_PROCID is not set"});
  for (const char* tasks : {"4", "1073741824(x4),7"}) {
    expect_parts(error_of(with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", tasks}})), {"does not add up to 7 tasks"});
  }
  expect_parts(error_of(with(slurm, {{"SLURM_LOCALID", "3"}})), {"SLURM_LOCALID is \"3\""});
  // Scripts export WORLD_SIZE, because Python programs under srun often need it.
  EXPECT_EQ(read(with(slurm, {{"WORLD_SIZE", "7"}})).rank, 5);
  expect_parts(error_of(with(slurm, {{"WORLD_SIZE", "8"}})), {"WORLD_SIZE is 8, but Slurm started 7"});
  expect_parts(error_of({{"WORLD_SIZE", "2"}}), {"RANK is not set"});
  expect_parts(error_of({{"RANK", "1"}}), {"WORLD_SIZE is not set"});
}

TEST(Environment, WithoutLocalVariablesTheHostIsNotKnown) {
  const Variables by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1234"}};
  EXPECT_FALSE(read(by_hand).knows_host);
  EXPECT_FALSE(read(with(by_hand, {{"LOCAL_RANK", "1"}})).knows_host);
  EXPECT_TRUE(read(with(by_hand, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}})).knows_host);
  EXPECT_TRUE(read({}).knows_host);
}

TEST(Environment, OneVisibleGpuIsThisProcesss) {
  Environment environment;
  environment.local_rank = 3;
  EXPECT_EQ(gpu_of(environment, 4), 3);
  EXPECT_EQ(gpu_of(environment, 1), 0);
  EXPECT_THROW(gpu_of(environment, 2), Error);
  EXPECT_THROW(gpu_of(environment, 0), Error);
}

TEST(Slurm, NodeLists) {
  using List = std::vector<std::string>;
  EXPECT_EQ(expand_nodelist("node1"), List{"node1"});
  EXPECT_EQ(expand_nodelist("a[01-03,07],b5,c[1-2]-ib"), (List{"a01", "a02", "a03", "a07", "b5", "c1-ib", "c2-ib"}));
  EXPECT_EQ(expand_nodelist("n[8-11]"), (List{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_nodelist("n[098-101]"), (List{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(expand_nodelist("r[1-2]n[1-2]"), (List{"r1n1", "r1n2", "r2n1", "r2n2"}));
  EXPECT_EQ(expand_nodelist("host-a.example.org,host-b"), (List{"host-a.example.org", "host-b"}));
  for (const auto* bad : {"", "a[1-3", "a1]", "a[]", "a[x]", "a[3-1]", "a,,b", "a[1-999999999]", "a[-1]",
                          "a[0-99999][0-99999]", "a[0-40000],b[0-40000]", "a[1-2"}) {
    EXPECT_THROW(expand_nodelist(bad), Error) << bad;
  }
}

TEST(Slurm, TasksPerNode) {
  EXPECT_EQ(expand_tasks_per_node("4(x2),3"), (std::vector<int>{4, 4, 3}));
  EXPECT_EQ(expand_tasks_per_node("2"), std::vector<int>{2});
  for (const auto* bad : {"", "x", "4(2)", "4(x2", "4,", "4(x99999999)", "4 "}) {
    EXPECT_THROW(expand_tasks_per_node(bad), Error) << bad;
  }
}

TEST(Slurm, PortsAreAboveTheKernelsOwn) {
  for (std::uint64_t job = 0; job < 10000; job += 7) {
    EXPECT_GE(port_for(job, 0), 61440);
    EXPECT_LE(port_for(job, 3), 65535);
  }
  EXPECT_NE(port_for(1, 0), port_for(2, 0));
  EXPECT_NE(port_for(1, 0), port_for(1, 1));
}

}  // namespace
}  // namespace tandem::distributed

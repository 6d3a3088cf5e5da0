// Environment: the place of this process in its job, as the launcher told it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// A process that no launcher started is the only one of its job: rank 0 of 1.
struct Environment {
  // "torchrun" (also for tandemrun, and for variables set by hand), "Open MPI", "MVAPICH2", "MPICH" or "Slurm". Empty
  // when no launcher started this process.
  std::string launcher;
  int rank = 0;  // of world_size processes in the job
  int world_size = 1;
  int local_rank = 0;  // of local_world_size processes on this host
  int local_world_size = 1;
  int node_rank = 0;  // the number of this host among the node_count hosts ("nodes") of the job
  int node_count = 1;
  // Whether the launcher said which processes share a host. If it did not, the four numbers above are guesses until
  // connect_store() has found them out.
  bool knows_host = true;
  // The address of the store. Empty and 0 in a job of one process without a launcher.
  std::string master_addr;
  int master_port = 0;
  std::string store_path;  // if not empty, the store is this file, or a file in this folder, and not at master_addr
  std::string run_id;      // the launcher's name for the job; empty where it has none
  int restart_count = 0;   // of this process; processes on other hosts may have restarted more or less often
  bool uses_agent_store = false;  // true: the launcher serves the store at master_addr; false: rank 0 serves it
  bool store_proves = false;      // the launcher is ours: its store proves that it knows the token
  std::string store_token;        // the token that the user or the launcher gave; empty: none (store_token.h)
  bool open_store = false;        // the store that rank 0 serves asks for no token; the program decides that
  std::string note;               // a sentence for the user when something looks unintended; else empty
};

// Reads the variables of the first of these launchers that has set its own:
//   torchrun, tandemrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, TORCHELASTIC_*
//   Open MPI             OMPI_COMM_WORLD_RANK, ...
//   MVAPICH2             MV2_COMM_WORLD_RANK, ...
//   MPICH, Intel MPI     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm                SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...: in job steps (srun) only
// MASTER_ADDR and MASTER_PORT are read under every launcher. Slurm's jobs and mpirun's jobs of one host need neither.
// `variable` is getenv or, in tests, a function like it (null: not set). `needs_master` says that the ranks meet at
// MASTER_ADDR. An Error names the variable whose value is no number, is out of range or contradicts another one.
Environment read_environment(const std::function<const char*(const char*)>& variable, bool needs_master = true);
Environment read_environment();

// Whether all ranks are known to be on one host: the launcher said so, or they meet at a loopback address.
bool is_one_host(const Environment& environment);

// Fills in which ranks share this process's host. `hosts`, by rank, are equal for ranks of one host. Local ranks follow
// the order of ranks. Hosts follow the order of their lowest ranks.
void set_hosts(Environment& environment, const std::vector<std::string>& hosts);

// The number of the GPU that this process uses, out of `visible` GPUs: local_rank, or 0 where this process sees only
// one GPU, because some launchers show each process its own GPU only (srun --gpus-per-task, CUDA_VISIBLE_DEVICES).
// Error when the process sees no GPU, or several but too few for its local_rank.
int gpu_of(const Environment& environment, int visible);

}  // namespace tandem::distributed

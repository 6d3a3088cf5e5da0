// Environment: the rank of this process and the other properties of its job, as set by the launcher.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tandem::distributed {

// A process that no launcher started is the only one of its job: rank 0 of 1.
struct Environment {
  // "torchrun" (also for tandemrun, and for variables that the user set), "Open MPI", "MVAPICH2", "MPICH" or "Slurm".
  // Empty if no launcher started this process.
  std::string launcher;
  int rank = 0;  // of world_size processes in the job
  int world_size = 1;
  int local_rank = 0;  // of local_world_size processes on this host
  int local_world_size = 1;
  int node_rank = 0;  // the number of this host among the node_count hosts ("nodes") of the job
  int node_count = 1;
  // Whether the launcher said which processes share a host. If not, the four numbers above are guesses until
  // connect_store() has set them.
  bool knows_host = true;
  // The address of the store. Empty and 0 in a job of one process without a launcher.
  std::string master_addr;
  int master_port = 0;
  std::string store_path;         // if not empty, the store is this file or a file in this folder, instead of a server
  std::string run_id;             // the launcher's name for the job; may be empty
  int restart_count = 0;          // of this process; processes on other hosts may have restarted more or less often
  bool uses_agent_store = false;  // true: the launcher serves the store at master_addr; false: rank 0 serves it
  bool is_elastic = false;        // whether tandemrun --elastic started this process
  bool store_proves = false;      // whether the launcher is Tandem's, whose store proves that it knows the token
  std::string store_token;        // the token from the user or the launcher; empty: none (store_token.h)
  bool open_store = false;        // set by the program: the store that rank 0 serves asks for no token
  std::string note;               // a sentence for the user if something looks unintended; else empty
};

// Reads the variables of the first of these launchers that has set any:
//   torchrun, tandemrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, TORCHELASTIC_*
//   Open MPI             OMPI_COMM_WORLD_RANK, ...
//   MVAPICH2             MV2_COMM_WORLD_RANK, ...
//   MPICH, Intel MPI     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm                SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...: in job steps (srun) only
// It reads MASTER_ADDR and MASTER_PORT under every launcher. Jobs of Slurm, and jobs of mpirun on one host, need
// neither. `variable` is getenv or, in tests, a similar function that returns null for a variable that is not set.
// `needs_master` says whether the ranks meet at MASTER_ADDR. Throws an Error that names the variable if a value is not
// a number, is out of range or contradicts another value.
Environment read_environment(const std::function<const char*(const char*)>& variable = ::getenv,
                             bool needs_master = true);

// Returns whether all ranks are known to be on one host: the launcher said so, or they meet at a loopback address.
bool is_one_host(const Environment& environment);

// Sets the local and node numbers of `environment`. `hosts[r]` is a text that is equal for ranks on the same host.
// Local ranks are in the order of ranks. Nodes are in the order of their lowest ranks.
void set_hosts(Environment& environment, const std::vector<std::string>& hosts);

// Returns the number of the GPU that this process uses, out of `visible` GPUs. That is local_rank, or 0 if the process
// sees only one GPU, because some launchers show each process only its own GPU (srun --gpus-per-task,
// CUDA_VISIBLE_DEVICES). Throws an Error if the process sees no GPU, or several but too few for its local_rank.
int gpu_of(const Environment& environment, int visible);

}  // namespace tandem::distributed

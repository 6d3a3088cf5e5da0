// Environment: this process's place in its job, as the launcher told it.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tandem::distributed {

// A process that no launcher started is a job of one.
struct Environment {
  std::string launcher;  // "torchrun" (tandemrun too, and variables set by hand), "Open MPI", "MVAPICH2", "MPICH",
                         // "Slurm"; or empty
  int rank = 0;          // of world_size processes in the job
  int world_size = 1;
  int local_rank = 0;  // of local_world_size processes on this host
  int local_world_size = 1;
  int node_rank = 0;  // the number of this host among the node_count hosts ("nodes") of the job
  int node_count = 1;
  bool knows_host =
      true;  // else the launcher did not say who shares a host, and the last four are guesses: see find_neighbours
  // Where the store is; empty and 0 in a job of one without a launcher.
  std::string master_addr;
  int master_port = 0;
  std::string store_path;         // when not empty the store is this file or is in this folder, and not at master_addr
  std::string run_id;             // of the job; empty where the launcher has no name for it
  int restart_count = 0;          // of this process, not of the job: other hosts may have restarted more or less often
  bool uses_agent_store = false;  // the launcher serves the store at master_addr; else rank 0 does
  std::string store_token;        // what the store asks for; empty: nothing
  std::string note;               // a sentence for the user when something looks unintended; else empty
};

// The first of these launchers whose variables are there decides:
//   torchrun, tandemrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, TORCHELASTIC_*
//   Open MPI             OMPI_COMM_WORLD_RANK, ...
//   MVAPICH2             MV2_COMM_WORLD_RANK, ...
//   MPICH, Intel MPI     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm                SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...: in job steps (srun) only
// MASTER_ADDR and MASTER_PORT always count; jobs of one host do without, and so do Slurm's.
// `variable` is getenv, or for tests something like it (null: not set); `needs_master`: the ranks meet at MASTER_ADDR.
// Error for values that are no numbers, are out of range or contradict each other, naming the variable.
Environment read_environment(const std::function<const char*(const char*)>& variable, bool needs_master = true);
Environment read_environment();

// Which of the `visible` GPUs is this process's: number local_rank; the only one, where the launcher shows each process
// just its own (srun --gpus-per-task, CUDA_VISIBLE_DEVICES). Error when there are too few for the processes of this
// host.
int gpu_of(const Environment& environment, int visible);

// Tells the launcher (tandemrun or torchrun) why this process is about to fail: writes `message` and the time
// to TORCHELASTIC_ERROR_FILE; of several failures in a job the earliest is reported as the cause. Does
// nothing when there is no launcher. Never throws: the failure itself must get through.
void report_failure(const std::string& message,
                    std::chrono::system_clock::time_point when = std::chrono::system_clock::now()) noexcept;

}  // namespace tandem::distributed

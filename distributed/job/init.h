// init: from what the launcher told this process to the group of all ranks.
#pragma once

#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/job/environment.h>

#include <chrono>
#include <memory>
#include <string>

namespace tandem::distributed {

struct InitOptions {
  // "gloo", "shm" or "mpi" for arrays in host memory (those on a GPU go through it), "nccl" for arrays on GPUs as well.
  // "auto": nccl when `device` is a GPU, else shm where all ranks share a host, else gloo.
  std::string backend = "auto";
  // Where the ranks meet: "env://" (MASTER_ADDR and MASTER_PORT), "tcp://HOST:PORT" (rank 0 listens there) or
  // "file://PATH" (a file, or a folder for one, that all ranks can write to).
  std::string init_method = "env://";
  std::chrono::milliseconds timeout = std::chrono::seconds(300);  // the longest wait for a peer
  std::string interface {};                                       // see GroupOptions
  // Where this rank computes. With "nccl" and the CPU here it is the GPU that the launcher meant: see gpu_of().
  Device device{};
};

// The group of all ranks of this job, connected. Collective. A process that no launcher started is a job of one.
// Error when the launcher's variables or the options make no sense, or when the others don't come in time.
std::shared_ptr<ProcessGroup> init(const InitOptions& options = {});

// This process's place in its job when the ranks meet as `init_method` says: the launcher's variables, with another
// address where that gives one.
Environment environment_for(const std::string& init_method);

// Error unless `method` is one that InitOptions names.
void check_init_method(const std::string& method);

}  // namespace tandem::distributed

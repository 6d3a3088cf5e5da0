// init: connects this process to the group of all ranks, by what the launcher told it.
#pragma once

#include <tandem/distributed/groups/group_backend.h>
#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/job/environment.h>
#include <tandem/distributed/job/failure_report.h>
#include <tandem/distributed/system/annexes.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace tandem::distributed {

struct InitOptions {
  // automatic is nccl when `device` is a GPU, else shm where all ranks share a host, else gloo.
  GroupBackend backend = GroupBackend::automatic;
  // Where the ranks meet: "env://" (MASTER_ADDR and MASTER_PORT), "tcp://HOST:PORT" (rank 0 listens there) or
  // "file://PATH" (a file, or a folder for one, that all ranks can write to).
  std::string init_method = "env://";
  // The longest wait for a peer. 300 s is the default of PyTorch's TCPStore.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
  std::string interface {};  // see GroupOptions
  // Lets any process join the store that rank 0 serves where the launcher serves none. Without it, a job on several
  // hosts must have a token (store_token.h).
  bool open_store = false;
  // Where this rank computes. With the backend nccl and the CPU here, gpu_of() chooses the GPU.
  Device device{};
  // Called on every rank once all have met, before init() returns. Empty: nothing is called.
  std::function<void(ProcessGroup&)> when_met{};
};

// Connects the ranks of this job and returns their group. Collective. A process that no launcher started gets a group
// of one. Error when the launcher's variables or the options make no sense, or when other ranks do not come in time.
std::shared_ptr<ProcessGroup> init(const InitOptions& options = {});

// What the launcher's variables say, except that `init_method` decides where the store is if it names an address or a
// file.
Environment environment_for(const std::string& init_method);

// Error unless `method` has one of the forms of InitOptions::init_method.
void check_init_method(const std::string& method);

// Returns observers for the process groups of this job. `store` is that of connect_store(). init() calls each function
// once.
using JobObservers = std::function<Observers(const Environment& environment, Store& store)>;
AnnexList<JobObservers>& job_observers();

}  // namespace tandem::distributed

// init: connects this process to the group of all ranks, according to the launcher's variables.
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
  // automatic is nccl if `device` is a GPU, else shm if all ranks share a host, else gloo.
  GroupBackend backend = GroupBackend::automatic;
  // The address at which the ranks meet: "env://" (MASTER_ADDR and MASTER_PORT), "tcp://HOST:PORT" (rank 0 listens
  // there) or "file://PATH" (a file, or a folder for it, to which all ranks can write).
  std::string init_method = "env://";
  // The longest wait for a peer. 300 s is the default of PyTorch's TCPStore.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
  std::string interface {};  // see GroupOptions
  // If the launcher does not serve the store, lets any process join the store that rank 0 serves. Otherwise, a job on
  // several hosts must have a token (store_token.h).
  bool open_store = false;
  // The device on which this rank computes. If it is the CPU and the backend is nccl, gpu_of() chooses the GPU.
  Device device{};
  // init() calls this function on every rank after all ranks have met. May be empty.
  std::function<void(ProcessGroup&)> when_met{};
};

// Connects the ranks of this job and returns their group. The call is collective. A process that no launcher started
// gets a group of one rank. Throws an Error if the launcher's variables or the options are invalid, or if other ranks
// do not arrive within the timeout.
std::shared_ptr<ProcessGroup> init(const InitOptions& options = {});

// Returns the contents of the launcher's variables. If `init_method` names an address or a file, it replaces the
// address of the store.
Environment environment_for(const std::string& init_method);

// Throws an Error unless `method` has one of the forms of InitOptions::init_method.
void check_init_method(const std::string& method);

// Returns observers for the process groups of this job. `store` is the result of connect_store(). init() calls each
// function once.
using JobObservers = std::function<Observers(const Environment& environment, Store& store)>;
inline constinit AnnexList<JobObservers> job_observers{add_distributed_annexes};

}  // namespace tandem::distributed

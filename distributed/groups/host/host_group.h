// Process groups for arrays in host memory. Their ranks communicate over TCP, through shared memory of one host, or
// over MPI.
#pragma once

#include <tandem/distributed/groups/group_backend.h>
#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/store/store.h>

#include <chrono>
#include <memory>
#include <string>

namespace tandem::distributed {

struct GroupOptions {
  int rank = 0;
  int size = 1;
  // The longest wait for a peer, both in an operation and while connecting.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
  // The network interface, given by its name ("eth0") or its network ("10.1.0.0/16"). Empty: the loopback interface if
  // all ranks share a host, else the interface through which this host reaches the store.
  std::string interface {};
  // automatic: shm if all ranks are on one host and each of them has room for its segment, else gloo. shm: throws an
  // Error unless all ranks are on one host. nccl: throws an Error, because nccl is not a backend for a group on the
  // host (see for_gpus). If the ranks' backends differ, all ranks throw an Error that names the backends.
  GroupBackend backend = GroupBackend::automatic;
  // Observe the operations of the group and of its subgroups. Without a Watchdog among them, a rank does not notice
  // that another rank has failed until it waits for that rank, and errors do not say what late ranks are doing.
  Observers observers{};
  // Whether nccl_group() makes a group for GPUs from this one. If the ranks' backends differ, the error then says nccl.
  bool for_gpus = false;
};

// Connects every rank to every other rank, and returns when all ranks are connected. `store` must not contain keys of
// an earlier group (use a prefix_store). The group uses the store for as long as the group lives. Collectives run one
// after the other, in the order in which they were started, on a thread of the group or on the thread that waits for
// the collective. Destroying the group aborts the operations that are still running.
std::shared_ptr<ProcessGroup> host_group(std::shared_ptr<Store> store, const GroupOptions& options);

}  // namespace tandem::distributed

// Process groups for arrays in host memory. Their bytes go over TCP, through memory that the ranks of one host share,
// or over MPI.
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
  // The longest wait for a peer, in any operation and while connecting.
  std::chrono::milliseconds timeout = std::chrono::seconds(300);
  // The network interface, by name ("eth0") or by network ("10.1.0.0/16"). Empty: the loopback when all ranks
  // share a host, else the interface through which this host reaches the store.
  std::string interface {};
  // automatic: shm where all ranks are on one host and each has room for it, else gloo. shm: Error unless all ranks are
  // on one host. nccl: Error, because it is no backend of a group on the host (see for_gpus). If the ranks' backends
  // differ, an Error on all ranks names them.
  GroupBackend backend = GroupBackend::automatic;
  // The observers of the operations of the group and of its subgroups. Without a Watchdog among them, a rank does not
  // learn that another rank has failed before it waits for that rank, and errors do not say what late ranks are doing.
  Observers observers{};
  // nccl_group() makes a group for GPUs from this one. The error for ranks whose backends differ then says nccl.
  bool for_gpus = false;
};

// Connects every rank to every other; returns when all ranks are there. `store` must hold no key of an earlier group
// (use a prefix_store), and the group uses it as long as it lives. Collectives run one after the other, in the order in
// which they were started, on a thread of the group or on the thread that waits for one. Destroying the group breaks
// off what is still running.
std::shared_ptr<ProcessGroup> host_group(std::shared_ptr<Store> store, const GroupOptions& options);

}  // namespace tandem::distributed

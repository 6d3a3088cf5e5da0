// Hierarchical all-reduce: first within each host, then between one rank of each host, and training with it.
#pragma once

#include <tandem/distributed/ddp/communication_hooks.h>
#include <tandem/distributed/groups/process_group.h>
#include <tandem/distributed/system/host_identity.h>

#include <memory>
#include <string>

namespace tandem::distributed {

// The groups of a hierarchical all-reduce. The first rank of each host is its leader.
struct Hierarchy {
  std::shared_ptr<ProcessGroup> on_host{};  // the ranks of this rank's host; rank 0 is the leader
  std::shared_ptr<ProcessGroup> leaders{};  // the leaders of all hosts; null on all other ranks
  int size = 1;                             // the number of all ranks
};

// Makes the subgroups. Ranks with the same `host` text are on one host. By default, these are the ranks that can reach
// each other through 127.0.0.1, so containers with their own networks count as hosts. The order of ranks and the number
// of ranks per host are arbitrary. Each subgroup chooses its transport as init() does: with --backend auto, the ranks
// of a host share memory and the leaders use TCP; ranks with GPUs use NCCL. Collective.
Hierarchy make_hierarchy(ProcessGroup& group, const std::string& host = loopback_identity());

// Does the same as group.all_reduce(array, op)->wait(), for any operation, in three steps: the ranks of each host
// reduce their arrays to their leader, the leaders all-reduce theirs, and each leader broadcasts the result on its
// host. The result is bitwise identical on all ranks. For an array of n bytes on H hosts, each host sends and receives
// about 2 (H - 1) / H n bytes over the network, whatever the number and order of its ranks. Collective, and blocks.
// (Jia et al., "Highly Scalable Deep Learning Training System with Mixed-Precision", arXiv:1807.11205.)
void hierarchical_all_reduce(const Hierarchy& hierarchy, const Array& array, ReduceOp op = ReduceOp::sum);

// Data parallelism with a hierarchical all-reduce, as a hook of DistributedDataParallel:
//
//   DistributedDataParallel ddp(model, group);
//   ddp.set_communication_hook(hierarchical_hook(group));
//
// The steps of successive buckets overlap with the backward pass and with each other: when bucket k is full, the
// leaders exchange bucket k - 1, and bucket k - 2 is broadcast. Before it starts a step, the hook waits for the
// previous step of that bucket. The call is collective.
CommunicationHook hierarchical_hook(const std::shared_ptr<ProcessGroup>& group,
                                    const std::string& host = loopback_identity());

}  // namespace tandem::distributed

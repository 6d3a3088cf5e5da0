// NodeRendezvous: lets the launchers of a job's nodes meet, publish their status, and read the assignment.
#pragma once

#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/system/annexes.h>

#include <functional>
#include <memory>
#include <string>

namespace tandem::distributed {

// make_node_rendezvous() makes it. Only one thread may use it. The options must outlive it.
class NodeRendezvous {
 public:
  virtual ~NodeRendezvous() = default;

  // Returns the port of the store, which the ranks reach at LaunchOptions::master_addr.
  virtual int port() const = 0;
  // Returns a file descriptor that becomes readable when assignment() may have changed, or -1 if only report() changes
  // it.
  virtual int fd() const = 0;
  // Returns what all nodes must do. If the other nodes can't be reached (any more), the assignment says that the job
  // has failed.
  virtual JobAssignment assignment() = 0;
  // Publishes the status of this node. With several nodes, the rendezvous fills in `id` and `serves_store`.
  virtual void report(const NodeStatus& status) = 0;
  virtual int id() const = 0;  // this node's id in assignments, or -1 before the node has joined
  // Returns whether this node may end: the other nodes know that it has left. If it serves the store, all other nodes
  // must also have left or been silent for too long.
  virtual bool is_released() = 0;
  // Returns how many clients the store has rejected because they did not know the token.
  virtual int refused_clients() const = 0;
};

// With one node, there is no other node to meet: the store listens only on that host, and nothing waits. With several
// nodes, one of them serves the store (see LaunchOptions::node_rank), and a thread of every node exchanges statuses and
// the assignment through it, once per LaunchOptions::monitor_interval. `status` is the first status of this node.
// Throws an Error if this node must serve the store and can't. With several nodes, rendezvous_of_many_nodes must have
// an entry.
std::unique_ptr<NodeRendezvous> make_node_rendezvous(const LaunchOptions& options, const std::string& token,
                                                     const NodeStatus& status);

using MakeNodeRendezvous = std::function<std::unique_ptr<NodeRendezvous>(
    const LaunchOptions& options, const std::string& token, const NodeStatus& status)>;
// make_node_rendezvous() uses the first entry.
inline constinit AnnexList<MakeNodeRendezvous> rendezvous_of_many_nodes{add_distributed_annexes};

}  // namespace tandem::distributed

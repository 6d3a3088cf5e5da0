// NodeRendezvous: where the launchers of a job's nodes meet, tell each other how they are, and learn what to do.
#pragma once

#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/launch/launch_options.h>

#include <memory>
#include <string>

namespace tandem::distributed {

// Made by make_node_rendezvous. For one thread, and not to be outlived by the options.
class NodeRendezvous {
 public:
  virtual ~NodeRendezvous() = default;

  // The store's port, for the ranks; where to reach it is LaunchOptions::master_addr.
  virtual int port() const = 0;
  // Readable when assignment() may have changed; -1: it changes by report() alone.
  virtual int fd() const = 0;
  // What all are to do. That the other nodes can't be reached (any more) is a assignment as well: the job has failed.
  virtual JobAssignment assignment() = 0;
  // How this node is now.
  virtual void report(const NodeStatus& status) = 0;
  virtual int id() const = 0;  // of this node in assignments; -1 before the first one
  // Whether nobody depends on this node any more: it has told the others that it has left and, where it serves the
  // store, they have left as well or have not been heard of for too long.
  virtual bool is_released() = 0;
  // Clients that the store turned away because they did not know the token.
  virtual int refused_clients() const = 0;
};

// With one node there is nobody to meet: the store listens on that host alone, and nothing waits. With several, the
// node that owns the address serves the store; a thread looks at the others at LaunchOptions::monitor_interval.
// `status` is this node's first one. Error when this node is to serve the store and cannot.
std::unique_ptr<NodeRendezvous> make_node_rendezvous(const LaunchOptions& options, const std::string& token,
                                                     const NodeStatus& status);

}  // namespace tandem::distributed

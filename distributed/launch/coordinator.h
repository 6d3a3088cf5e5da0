// Coordinator: decides what the nodes of a job on several hosts do. It has no sockets and no processes.
//
// Coordinator::conclude() decides which rank failed first, once every remaining node has ended its ranks and published
// their failures. It merges the failures of all nodes and sorts them with sort_by_cause() (worker_failure.h). The first
// failure is the cause. Its exit code becomes the job's, unless a whole node has left or fallen silent.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/launch/launch_options.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Decides what all nodes do next. One node of the job runs it, on a single thread.
class Coordinator {
 public:
  using Time = Deadline;

  Coordinator(const LaunchOptions& options, Time now);

  // Returns the assignment, which is valid until the next call. `nodes` contains every node that has ever joined, in
  // the order of the ids. `now` must not be earlier than in the previous call.
  const JobAssignment& decide(const std::vector<NodeStatus>& nodes, Time now);
  // Fails the job, unless it has already ended, for a reason that is not in any node's status.
  const JobAssignment& give_up(const std::string& reason);

 private:
  // Handles the action gather: starts a generation once enough nodes wait, or fails the job.
  void gather(Time now);
  // Handles the action run: changes it to stop or done when a rank fails, a node leaves or joins, or all ranks have
  // ended.
  void watch();
  // Notes whether a node of the generation has left or fallen silent.
  void note_trouble();
  // Handles the action stop: waits until all nodes have ended, sorts their failures, and then restarts or fails the
  // job.
  void conclude(Time now);
  void start(std::vector<NodeStatus> nodes);
  // Returns the node whose ranks failed first if they rejected their command line and the node was not part of the
  // previous generation. Returns null otherwise.
  const NodeStatus* wrong_newcomer(Time now) const;
  // Returns whether the node is still there: it has not left, and has published its status within
  // options.silence_allowed.
  bool is_there(const NodeStatus& node) const;
  bool is_refused(const NodeStatus& node) const;
  const NodeStatus& node(int id) const;

  const LaunchOptions options_;
  JobAssignment assignment_;
  std::vector<NodeStatus> nodes_;
  Time gathering_since_;
  std::optional<Time> last_call_ends_;  // set while at least min_nodes wait: the latest start of the generation
  std::vector<JobAssignment::NodeRanks> before_;  // the nodes of the previous generation
  std::size_t nodes_before_ = 0;                  // how many nodes the previous generation had; 0: none
  bool makes_room_ = false;                       // whether the generation is stopping because a node has joined
  std::string newcomer_;                          // a sentence about that node
  std::string trouble_;   // says which node of this generation has left or fallen silent; may be empty
  int trouble_code_ = 1;  // the exit code for that
};

}  // namespace tandem::distributed

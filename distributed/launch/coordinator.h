// Coordinator: decides what the nodes of a job on several hosts do. Nothing here knows of sockets or processes.
//
// Coordinator::conclude decides who failed first, once every node that is still there has ended its ranks and published
// their failures. It joins the failures of all nodes and sorts them with sort_by_cause (worker_failure.h). The first
// failure is the cause: its exit code is the job's, unless a whole node left or fell silent.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/launch/launch_options.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// Decides what all nodes do next. One node of the job runs it, on one thread.
class Coordinator {
 public:
  using Time = Deadline;

  Coordinator(const LaunchOptions& options, Time now);

  // Returns the assignment, which is valid until the next call. `nodes`: every node that ever came, in the order of the
  // ids. `now` may not be earlier than that of the call before.
  const JobAssignment& decide(const std::vector<NodeStatus>& nodes, Time now);
  // The job fails for a reason that no status tells, unless it has ended already.
  const JobAssignment& give_up(const std::string& reason);

 private:
  // While the action is gather: starts a generation once enough nodes wait, or fails the job.
  void gather(Time now);
  // While the action is run: changes it to stop or done when a rank fails, a node goes, a node joins or all have
  // ended.
  void watch();
  // Notes whether a node of the generation has left or fallen silent.
  void note_trouble();
  // While the action is stop: waits until all nodes have ended, sorts their failures, then restarts or fails the job.
  void conclude(Time now);
  void start(std::vector<NodeStatus> nodes);
  // The node of the first failure, if its ranks rejected their command line and the node is new: the previous
  // generation ran without it. Null otherwise.
  const NodeStatus* wrong_newcomer(Time now) const;
  // Whether the node can be expected to answer: it has not left, and has published within options.silence_allowed.
  bool is_there(const NodeStatus& node) const;
  bool is_refused(const NodeStatus& node) const;
  const NodeStatus& node(int id) const;

  const LaunchOptions options_;
  JobAssignment assignment_;
  std::vector<NodeStatus> nodes_;
  Time gathering_since_;
  std::optional<Time> last_call_ends_;  // set while at least min_nodes wait: when the generation starts at the latest
  std::vector<JobAssignment::NodeRanks> before_;  // the nodes of the generation before
  std::size_t nodes_before_ = 0;                  // how many nodes the last generation had; 0: no generation before
  bool makes_room_ = false;                       // the generation is stopping because a node has joined
  std::string newcomer_;                          // that node, as a sentence
  std::string trouble_;                           // which node of this generation left or fell silent; empty: none did
  int trouble_code_ = 1;                          // the exit code for that
};

}  // namespace tandem::distributed

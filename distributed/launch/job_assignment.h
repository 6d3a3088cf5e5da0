// How the nodes of a job act together. A node is a host with a launcher. Every node publishes a NodeStatus; the
// Coordinator reads all of them and publishes one JobAssignment, which all nodes follow. Nothing here knows of sockets
// or processes.
//
// A job goes through generations. In each generation the nodes gather, run their ranks, and stop when a rank on any
// node fails. If a restart is left, the nodes then gather again for the next generation.
//
// Coordinator::conclude decides who failed first, once every node that is still there has ended its ranks and published
// their failures. It joins the failures of all nodes and sorts them with sort_by_cause (worker_failure.h). The first
// failure is the cause: its exit code is the job's, unless a whole node left or fell silent.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/launch/worker_failure.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// What a node says about itself.
struct NodeStatus {
  // waiting: for the next generation. running: its ranks run. ended: its ranks have ended, and `failures` is complete.
  // left: its launcher has ended or is about to end.
  enum class State { waiting, running, ended, left };

  int id = 0;          // nodes are numbered in the order in which they arrive
  int node_rank = -1;  // as given by --node-rank; -1: not given
  std::string host;
  pid_t pid = 0;      // of the launcher
  int processes = 0;  // how many ranks this node starts
  std::string role;
  int max_nodes = 1;
  bool serves_store = false;

  State state = State::waiting;
  int generation = -1;                  // the generation that the node runs or ran last
  bool has_failed = false;              // a rank of this node failed in that generation
  std::vector<WorkerFailure> failures;  // in that generation; complete once `state` is ended
  std::vector<int> ended_well;          // ranks of this node that exited with 0 and had not been told to stop
  int stopped_by = 0;                   // the signal that made this node's launcher leave; 0: none

  // How long this node has been silent. The node does not publish it: the node that runs the Coordinator counts it.
  std::chrono::milliseconds silence{0};
};

// What all nodes are to do next, and who belongs to the generation.
struct JobAssignment {
  enum class Action { gather, run, stop, done, failed };

  // Which ranks a node has.
  struct NodeRanks {
    int id = 0;  // of the node
    int first_rank = 0;
    int processes = 0;
    int first_role_rank = 0;
    int role_size = 0;
  };

  Action action = Action::gather;
  int generation = 0;
  int restarts = 0;              // how often a failure made all ranks start again, so far
  std::vector<NodeRanks> nodes;  // the nodes of the generation, in the order of their ranks
  // Sorted, the cause first. With Action::gather they are those of the generation before, with Action::failed those of
  // the last generation.
  std::vector<WorkerFailure> failures;
  std::vector<int> ended_early;  // ranks that exited with 0 while others still worked
  std::string reason;            // why a generation ended or the job failed, if no rank was the reason
  int exit_code = 0;

  int world_size() const;
  int node_of(int id) const;  // the node's index in `nodes`; -1: the node does not belong to the generation
};

// A text in the store that no launcher of this version wrote.
struct ForeignText : Error {
  using Error::Error;
};

// To and from JSON, for the store. Decoding throws ForeignText.
std::string encode(const NodeStatus& status);
std::string encode(const JobAssignment& assignment);
NodeStatus decode_status(const std::string& text);
JobAssignment decode_assignment(const std::string& text);

// Decides what all nodes do next. One node of the job runs it, on one thread.
class Coordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;

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
  void fail(const std::string& reason, int exit_code);
  // Whether the node can be expected to answer: it has not left, and has published within options.silence_allowed.
  bool is_there(const NodeStatus& node) const;
  const NodeStatus& node(int id) const;

  const LaunchOptions options_;
  JobAssignment assignment_;
  std::vector<NodeStatus> nodes_;
  Time gathering_since_;
  std::optional<Time> last_call_ends_;  // set while at least min_nodes wait: when the generation starts at the latest
  std::size_t nodes_before_ = 0;        // how many nodes the last generation had; 0: there was none
  bool makes_room_ = false;             // the generation is stopping because a node has joined
  std::string newcomer_;                // that node, as a sentence
  std::string trouble_;                 // which node of this generation left or fell silent; empty: none did
  int trouble_code_ = 1;                // the exit code for that
};

}  // namespace tandem::distributed

// How the nodes of a job (hosts, each with a launcher) act together: what each says of itself, what all are to do, and
// who decides that. Nothing here knows of sockets or processes.
//
// A job goes through generations. In each, the nodes gather, run their ranks, and stop when a rank anywhere fails; then
// they gather again for the next one, if a restart is left.
#pragma once

#include <tandem/distributed/launch/launch_options.h>
#include <tandem/distributed/launch/worker_failure.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tandem::distributed {

// What a node says of itself.
struct NodeStatus {
  enum class State { waiting, running, ended, left };

  int id = 0;          // given out in the order of arrival
  int node_rank = -1;  // asked for on the command line; -1: none
  std::string host;
  pid_t pid = 0;
  int processes = 0;
  std::string role;
  int max_nodes = 1;
  bool serves_store = false;

  State state = State::waiting;
  int generation = -1;                  // that it runs or ran
  bool has_failed = false;              // in that generation
  std::vector<WorkerFailure> failures;  // of that generation, complete once it has ended
  std::vector<int> ended_well;          // its ranks that ended with exit code 0 and had not been told to stop
  int stopped_by = 0;                   // the signal that made its launcher leave

  // Of the observer, not of the node: for how long it has not been heard of.
  std::chrono::milliseconds silence{0};
};

// What all nodes are to do next, and who belongs to the generation.
struct JobAssignment {
  enum class Verdict { gather, run, stop, done, failed };

  struct Member {
    int id = 0;
    int first_rank = 0;
    int processes = 0;
    int first_role_rank = 0;
    int role_size = 0;
  };

  Verdict verdict = Verdict::gather;
  int generation = 0;
  int restarts = 0;             // so far
  std::vector<Member> members;  // of the generation, by node number
  std::vector<WorkerFailure>
      failures;                  // the cause first: of the generation before (gather), or of the last one (failed)
  std::vector<int> ended_early;  // ranks that ended well while others worked
  std::string reason;            // why a generation ended or the job failed, where it was no rank
  int exit_code = 0;

  int world_size() const;
  int node_of(int id) const;  // its place among the members; -1: it is none
};

// As JSON, for the store. Reading gives an Error for what is none of ours.
std::string encode(const NodeStatus& status);
std::string encode(const JobAssignment& assignment);
NodeStatus decode_status(const std::string& text);
JobAssignment decode_assignment(const std::string& text);

// Decides for all nodes. For one thread.
class Coordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Coordinator(const LaunchOptions& options, Time now);

  // The assignment, given all nodes that ever came, in the order of their ids.
  const JobAssignment& decide(const std::vector<NodeStatus>& nodes, Time now);

 private:
  void gather(Time now);
  void watch();
  void note_trouble();
  void conclude(Time now);
  void start(std::vector<NodeStatus> members);
  void fail(const std::string& reason, int exit_code);
  // Whether it will still answer.
  bool is_there(const NodeStatus& node) const;
  const NodeStatus& node(int id) const;

  const LaunchOptions options_;
  JobAssignment assignment_;
  std::vector<NodeStatus> nodes_;
  Time gathering_since_;
  std::optional<Time> last_call_ends_;
  std::size_t members_before_ = 0;
  bool makes_room_ = false;  // stopping because a node has joined
  std::string newcomer_;
  std::string trouble_;  // of a node in this generation, where it was no rank
  int trouble_code_ = 1;
};

}  // namespace tandem::distributed

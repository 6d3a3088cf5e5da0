// JobAssignment: coordinates the nodes of a job. A node is a host with a launcher. Every node publishes a NodeStatus,
// and all nodes follow the same JobAssignment, which they get from a NodeRendezvous. This file has no sockets and no
// processes.
//
// A job has generations. In each generation, the nodes gather, run their ranks, and stop when a rank on any node fails.
// If a restart is left, the nodes then gather again for the next generation.
#pragma once

#include <tandem/distributed/launch/worker_failure.h>

#include <chrono>
#include <string>
#include <vector>

namespace tandem::distributed {

// The status that a node publishes.
struct NodeStatus {
  // waiting: the node waits for the next generation. running: its ranks are running. ended: its ranks have ended, and
  // `failures` is complete. left: its launcher has ended or is about to end.
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
  int generation = -1;                  // the generation that the node is running, or ran last
  bool has_failed = false;              // whether a rank of this node failed in that generation
  std::vector<WorkerFailure> failures;  // in that generation; complete once `state` is ended
  std::vector<int> ended_well;          // ranks of this node that exited with 0 and had not been told to stop
  int stopped_by = 0;                   // the signal that stopped this node's launcher; 0: none

  // The time for which this node has been silent. It is not published: the node that serves the store measures it.
  std::chrono::milliseconds silence{0};
};

// The exit code of Tandem's programs, Python's argparse and most other programs for invalid arguments.
constexpr int usage_exit_code = 2;

// Says what all nodes must do next, and which nodes belong to the generation.
struct JobAssignment {
  enum class Action { gather, run, stop, done, failed };

  // The ranks of a node.
  struct NodeRanks {
    int id = 0;  // of the node
    int first_rank = 0;
    int processes = 0;
    int first_role_rank = 0;
    int role_size = 0;
  };

  Action action = Action::gather;
  int generation = 0;
  int restarts = 0;              // how often all ranks have been restarted after a failure
  std::vector<NodeRanks> nodes;  // the nodes of the generation, in the order of their ranks
  // Sorted, with the cause first. With Action::gather, these are the failures of the previous generation, with
  // Action::failed, those of the last generation.
  std::vector<WorkerFailure> failures;
  std::vector<int> ended_early;  // ranks that exited with 0 while others were still working
  std::vector<int> refused;      // the ids of nodes with a wrong command line; the job continues without them
  std::string reason;            // why a generation ended or the job failed, if no rank was the reason
  int exit_code = 0;

  void fail(const std::string& why, int code);
  // Restarts the job if a restart is left and `can_restart` is true. Otherwise fails the job. The exit code is that of
  // the first failure, or `trouble_code` if `trouble` describes what happened to a whole node.
  void restart_or_fail(int max_restarts, const std::string& trouble = "", int trouble_code = 1,
                       bool can_restart = true);
  // Lets all nodes gather for the next generation.
  void gather_again() {
    action = Action::gather;
    ++generation;
  }

  int world_size() const;
  int node_of(int id) const;  // the node's index in `nodes`; -1: the node does not belong to the generation
};

}  // namespace tandem::distributed

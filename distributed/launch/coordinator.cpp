#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/launch/coordinator.h>
#include <tandem/distributed/system/signal_name.h>

#include <algorithm>
#include <utility>

namespace tandem::distributed {
namespace {

using State = NodeStatus::State;
using Action = JobAssignment::Action;

std::string name_of(const NodeStatus& node) {
  std::string text = "the node on host " + node.host + " (launcher pid " + std::to_string(node.pid);
  if (node.node_rank >= 0) text += ", --node-rank " + std::to_string(node.node_rank);
  return text + ")";
}

}  // namespace

Coordinator::Coordinator(const LaunchOptions& options, Time now) : options_(options), gathering_since_(now) {}

bool Coordinator::is_there(const NodeStatus& node) const {
  return node.state != State::left && node.silence <= options_.silence_allowed;
}

bool Coordinator::is_refused(const NodeStatus& node) const {
  return std::ranges::count(assignment_.refused, node.id) > 0;
}

const NodeStatus& Coordinator::node(int id) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [id](const auto& n) { return n.id == id; });
  TANDEM_CHECK(found != nodes_.end(), "launcher: the status of node ", id, ", which has ranks, is not in the store");
  return *found;
}

const JobAssignment& Coordinator::decide(const std::vector<NodeStatus>& nodes, Time now) {
  nodes_ = nodes;
  if (assignment_.action == Action::gather) gather(now);
  if (assignment_.action == Action::run) watch();
  if (assignment_.action == Action::stop) conclude(now);
  return assignment_;
}

const JobAssignment& Coordinator::give_up(const std::string& reason) {
  if (assignment_.action != Action::done && assignment_.action != Action::failed) assignment_.fail(reason, 1);
  return assignment_;
}

void Coordinator::gather(Time now) {
  std::vector<NodeStatus> here;
  for (const auto& node : nodes_) {
    if (node.serves_store && node.state == State::left)
      return assignment_.fail(name_of(node) + " served the store and has left, so the job cannot continue",
                              node.stopped_by ? 128 + node.stopped_by : 1);
    if (!is_there(node) || node.state != State::waiting || is_refused(node)) continue;
    if (node.max_nodes != options_.max_nodes)
      return assignment_.fail(name_of(node) + " was started with --nnodes " + std::to_string(node.max_nodes) +
                                  ", but other nodes with " + std::to_string(options_.max_nodes),
                              1);
    here.push_back(node);
  }
  if (options_.node_rank) {
    std::stable_sort(here.begin(), here.end(), [](const auto& a, const auto& b) { return a.node_rank < b.node_rank; });
    // If a launcher died and was started again, its old status is still in the store. The old launcher is silent, so it
    // must not count as a second node. A launcher publishes every 0.1 s by default (--monitor-interval), so a launcher
    // that has been silent for 2 s has probably died.
    constexpr auto fresh = std::chrono::seconds(2);
    for (std::size_t i = 1; i < here.size(); ++i) {
      if (here[i - 1].node_rank != here[i].node_rank) continue;
      if (here[i - 1].silence > fresh || here[i].silence > fresh) return;
      return assignment_.fail(
          name_of(here[i - 1]) + " and " + name_of(here[i]) + " have the same node rank; each needs its own", 1);
    }
  } else {
    // The node that serves the store comes first and gets rank 0, because users expect rank 0's output on that host.
    std::stable_sort(here.begin(), here.end(),
                     [](const auto& a, const auto& b) { return a.serves_store > b.serves_store; });
  }
  const auto count = static_cast<int>(here.size());
  if (count >= options_.min_nodes) {
    if (!last_call_ends_) last_call_ends_ = now + options_.last_call;
    const bool are_all_back = nodes_before_ > 0 && here.size() >= nodes_before_ &&
                              std::none_of(nodes_.begin(), nodes_.end(),
                                           [&](const auto& n) { return is_there(n) && n.state != State::waiting; });
    if (count >= options_.max_nodes || are_all_back || now >= *last_call_ends_) start(std::move(here));
    return;
  }
  last_call_ends_.reset();
  if (now < gathering_since_ + options_.join_timeout) return;
  std::string hosts;
  for (const auto& node : here) hosts += (hosts.empty() ? ": " : ", ") + node.host;
  assignment_.fail("waited " + seconds_text(options_.join_timeout) + ", but only " + std::to_string(count) + " of " +
                       std::to_string(options_.min_nodes) + " nodes arrived" + hosts +
                       (assignment_.reason.empty() ? "" : " (before that, " + assignment_.reason + ")"),
                   1);
}

void Coordinator::start(std::vector<NodeStatus> nodes) {
  // Nodes beyond max_nodes wait until another node leaves.
  if (nodes.size() > static_cast<std::size_t>(options_.max_nodes))
    nodes.resize(static_cast<std::size_t>(options_.max_nodes));
  assignment_.action = Action::run;
  before_ = std::exchange(assignment_.nodes, {});
  assignment_.failures.clear();
  assignment_.ended_early.clear();
  assignment_.reason.clear();
  int rank = 0;
  for (const auto& node : nodes) {
    JobAssignment::NodeRanks ranks{node.id, rank, node.processes, 0, 0};
    for (const auto& other : nodes) {
      if (other.role != node.role) continue;
      if (other.id == node.id) ranks.first_role_rank = ranks.role_size;
      ranks.role_size += other.processes;
    }
    assignment_.nodes.push_back(ranks);
    rank += node.processes;
  }
  nodes_before_ = nodes.size();
  makes_room_ = false;
  trouble_.clear();
  trouble_code_ = 1;
}

void Coordinator::note_trouble() {
  for (const auto& ranks : assignment_.nodes) {
    const auto& status = node(ranks.id);
    if (status.state == State::left) {
      trouble_ =
          name_of(status) + (status.stopped_by ? " was stopped by " + signal_name(status.stopped_by) : " has left");
      if (status.stopped_by) trouble_code_ = 128 + status.stopped_by;
    } else if (!is_there(status)) {
      trouble_ = name_of(status) + " has not been heard from for more than " + seconds_text(options_.silence_allowed);
    }
  }
}

void Coordinator::watch() {
  note_trouble();
  bool have_all_ended = true, has_rank_failed = false;
  for (const auto& ranks : assignment_.nodes) {
    const auto& status = node(ranks.id);
    if (status.generation != assignment_.generation) {
      have_all_ended = false;
      continue;
    }
    have_all_ended = have_all_ended && status.state == State::ended;
    has_rank_failed = has_rank_failed || status.has_failed;
  }
  if (has_rank_failed || !trouble_.empty()) {
    assignment_.action = Action::stop;
  } else if (have_all_ended) {
    assignment_.action = Action::done;
  } else if (!options_.node_rank && assignment_.nodes.size() < static_cast<std::size_t>(options_.max_nodes)) {
    for (const auto& node : nodes_) {
      if (!is_there(node) || node.state != State::waiting || assignment_.node_of(node.id) >= 0 || is_refused(node))
        continue;
      assignment_.action = Action::stop;
      makes_room_ = true;
      newcomer_ = name_of(node) + " has joined";
    }
  }
}

const NodeStatus* Coordinator::wrong_newcomer(Time now) const {
  // A program parses its command line first, so a later failure has a different reason. The number of refused nodes is
  // limited, so a supervisor that repeatedly restarts a wrong launcher can't stop the other nodes forever. The limits
  // are a minute and eight nodes.
  constexpr auto soon = std::chrono::minutes(1);
  constexpr std::size_t most_refused = 8;
  if (now - gathering_since_ > soon || assignment_.refused.size() >= most_refused) return nullptr;
  if (before_.empty() || assignment_.failures.empty() || assignment_.failures.front().exit_code() != usage_exit_code)
    return nullptr;
  const int rank = assignment_.failures.front().rank;
  for (const auto& ranks : assignment_.nodes) {
    const bool is_new = std::ranges::find(before_, ranks.id, &JobAssignment::NodeRanks::id) == before_.end();
    if (is_new && rank >= ranks.first_rank && rank < ranks.first_rank + ranks.processes) return &node(ranks.id);
  }
  return nullptr;
}

void Coordinator::conclude(Time now) {
  bool can_go_on = true;
  std::vector<WorkerFailure> failures;
  std::vector<int> ended_early;
  for (const auto& ranks : assignment_.nodes) {
    const auto& status = node(ranks.id);
    const bool has_ended = status.state == State::ended && status.generation == assignment_.generation;
    if (is_there(status) && !has_ended) return;
    can_go_on = can_go_on && !(status.serves_store && status.state == State::left);
    if (status.generation != assignment_.generation) continue;
    failures.insert(failures.end(), status.failures.begin(), status.failures.end());
    ended_early.insert(ended_early.end(), status.ended_well.begin(), status.ended_well.end());
  }
  note_trouble();
  sort_by_cause(failures);
  assignment_.failures = std::move(failures);
  assignment_.ended_early = std::move(ended_early);
  if (makes_room_ && assignment_.failures.empty() && trouble_.empty()) {
    assignment_.reason = newcomer_;
    assignment_.gather_again();
  } else if (const auto* wrong = wrong_newcomer(now); wrong && trouble_.empty()) {
    assignment_.refused.push_back(wrong->id);
    assignment_.reason =
        name_of(*wrong) + " joined with a wrong command line (exit code 2): the other nodes continue without it";
    --nodes_before_;
    assignment_.gather_again();
  } else {
    assignment_.restart_or_fail(options_.max_restarts, trouble_, trouble_code_, can_go_on);
  }
  gathering_since_ = now;
  last_call_ends_.reset();
}

}  // namespace tandem::distributed

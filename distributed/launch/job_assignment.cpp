#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/launch/job_assignment.h>
#include <tandem/distributed/system/signal_name.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <climits>
#include <map>

namespace tandem::distributed {
namespace {

using nlohmann::json;
using State = NodeStatus::State;
using Action = JobAssignment::Action;

std::string name_of(const NodeStatus& node) {
  std::string text = "the node on host " + node.host + " (launcher pid " + std::to_string(node.pid);
  if (node.node_rank >= 0) text += ", --node-rank " + std::to_string(node.node_rank);
  return text + ")";
}

// The beginning of a text, with a note if there is more. A text that was cut before is not cut again.
std::string cut(const std::string& text, std::size_t most) {
  constexpr std::size_t room_for_note = 64;
  if (text.size() <= most + room_for_note) return text;
  return text.substr(0, most) + "\n(and " + std::to_string(text.size() - most) + " bytes more)";
}

// A program may report a whole log as its message, and all failures of a job must fit into one value of the store
// (8 MiB). The first failure keeps what explain() shows of it. Of the others it shows one line. Ranks often fail with
// one message: it is written once.
json to_json(const std::vector<WorkerFailure>& failures) {
  // Chosen. JSON may need six times the bytes of a text, so the other messages take at most 6 MiB.
  constexpr std::size_t most_of_first = 16384, most_of_line = 1000, most_of_others = std::size_t{1} << 20;
  const auto most = std::clamp<std::size_t>(most_of_others / std::max<std::size_t>(1, failures.size()), 64, 1024);
  json result = json::array();
  std::map<std::string, std::size_t> written;  // messages, and which failure has each
  for (const auto& f : failures) {
    const bool is_first = result.empty();
    const auto [same, is_new] = written.emplace(f.message, result.size());
    json message = same->second;
    if (is_new) message = cut(f.message, is_first ? most_of_first : most);
    json last_lines = json::array();
    if (is_first) {
      for (const auto& line : f.last_lines) last_lines.push_back(cut(line, most_of_line));
    }
    result.push_back({{"rank", f.rank},
                      {"host", f.host},
                      {"pid", f.pid},
                      {"has_exited", f.end.has_exited},
                      {"status", f.end.status},
                      {"was_stopping", f.end.was_stopping},
                      {"message", message},
                      {"saw_another", f.saw_another},
                      {"time_ns", std::chrono::nanoseconds(f.time.time_since_epoch()).count()},
                      {"last_lines", last_lines},
                      {"hint", f.hint}});
  }
  return result;
}

// Error unless the value is a whole number from `least` to `most`. Sums of two such numbers fit as well.
int whole(const json& value, int least = 0, int most = 1'000'000'000) {
  const bool is_whole = value.is_number_integer();
  const auto number = is_whole ? value.get<std::int64_t>() : 0;
  TANDEM_CHECK(is_whole && least <= number && number <= most,
               value.dump(-1, ' ', false, json::error_handler_t::replace), " is no whole number from ", least, " to ",
               most);
  return static_cast<int>(number);
}

constexpr int most_processes = 1 << 16;  // of a node; chosen: far above what a host can run
constexpr int last_exit_code = 255;
// Of Tandem's programs, Python's argparse and most others, for arguments that they do not take.
constexpr int usage_exit_code = 2;
constexpr int last_signal = 127;

std::vector<int> ranks_from(const json& list) {
  std::vector<int> ranks;
  for (const auto& rank : list) ranks.push_back(whole(rank));
  return ranks;
}

std::vector<WorkerFailure> failures_from(const json& list) {
  std::vector<WorkerFailure> result;
  for (const auto& item : list) {
    WorkerFailure f;
    f.rank = whole(item.at("rank"));
    f.host = item.at("host");
    f.pid = whole(item.at("pid"));
    f.end.has_exited = item.at("has_exited");
    f.end.status = whole(item.at("status"), 0, f.end.has_exited ? last_exit_code : last_signal);
    f.end.was_stopping = item.at("was_stopping");
    const auto& message = item.at("message");
    if (message.is_number()) {
      const auto earlier = static_cast<std::size_t>(whole(message));
      TANDEM_CHECK(earlier < result.size(), "a failure names a message that is not there");
      f.message = result[earlier].message;
    } else {
      f.message = message;
    }
    f.saw_another = item.at("saw_another");
    const auto& time = item.at("time_ns");
    TANDEM_CHECK(time.is_number_integer() && time.get<std::int64_t>() >= 0, "a failure has no time");
    f.time = std::chrono::system_clock::time_point(std::chrono::nanoseconds(time.get<std::int64_t>()));
    f.end.seen = f.time;
    f.last_lines = item.at("last_lines");
    f.hint = item.at("hint");
    result.push_back(std::move(f));
  }
  return result;
}

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

template <class Read>
auto decode(const std::string& text, const char* what, Read&& read) {
  try {
    return read(json::parse(text));
  } catch (const std::exception& error) {
    throw ForeignText(std::string("launcher: the store holds a ") + what +
                      " that is none of this version's: " + error.what());
  }
}

}  // namespace

int JobAssignment::world_size() const {
  int size = 0;
  for (const auto& node : nodes) size += node.processes;
  return size;
}

int JobAssignment::node_of(int id) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [id](const auto& n) { return n.id == id; });
  return found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin());
}

std::string encode(const NodeStatus& s) {
  return text_of({{"id", s.id},
                  {"node_rank", s.node_rank},
                  {"host", s.host},
                  {"pid", s.pid},
                  {"processes", s.processes},
                  {"role", s.role},
                  {"max_nodes", s.max_nodes},
                  {"serves_store", s.serves_store},
                  {"state", static_cast<int>(s.state)},
                  {"generation", s.generation},
                  {"has_failed", s.has_failed},
                  {"failures", to_json(s.failures)},
                  {"ended_well", s.ended_well},
                  {"stopped_by", s.stopped_by}});
}

NodeStatus decode_status(const std::string& text) {
  return decode(text, "node's status", [](const json& value) {
    NodeStatus s;
    s.id = whole(value.at("id"));
    s.node_rank = whole(value.at("node_rank"), -1);
    s.host = value.at("host");
    s.pid = whole(value.at("pid"));
    s.processes = whole(value.at("processes"), 0, most_processes);
    s.role = value.at("role");
    s.max_nodes = whole(value.at("max_nodes"), 0, INT_MAX);
    s.serves_store = value.at("serves_store");
    s.state = static_cast<State>(whole(value.at("state"), 0, static_cast<int>(State::left)));
    s.generation = whole(value.at("generation"), -1);
    s.has_failed = value.at("has_failed");
    s.failures = failures_from(value.at("failures"));
    s.ended_well = ranks_from(value.at("ended_well"));
    s.stopped_by = whole(value.at("stopped_by"), 0, last_signal);
    return s;
  });
}

std::string encode(const JobAssignment& p) {
  json nodes = json::array();
  for (const auto& n : p.nodes) nodes.push_back({n.id, n.first_rank, n.processes, n.first_role_rank, n.role_size});
  return text_of({{"action", static_cast<int>(p.action)},
                  {"generation", p.generation},
                  {"restarts", p.restarts},
                  {"nodes", nodes},
                  {"failures", to_json(p.failures)},
                  {"ended_early", p.ended_early},
                  {"reason", p.reason},
                  {"exit_code", p.exit_code}});
}

JobAssignment decode_assignment(const std::string& text) {
  return decode(text, "assignment", [](const json& value) {
    JobAssignment p;
    p.action = static_cast<Action>(whole(value.at("action"), 0, static_cast<int>(Action::failed)));
    p.generation = whole(value.at("generation"));
    p.restarts = whole(value.at("restarts"));
    int ranks = 0;
    for (const auto& n : value.at("nodes")) {
      p.nodes.push_back(
          {whole(n.at(0)), whole(n.at(1)), whole(n.at(2), 0, most_processes), whole(n.at(3)), whole(n.at(4))});
      ranks = whole(ranks + p.nodes.back().processes);
    }
    p.failures = failures_from(value.at("failures"));
    p.ended_early = ranks_from(value.at("ended_early"));
    p.reason = value.at("reason");
    p.exit_code = whole(value.at("exit_code"), 0, last_exit_code);
    return p;
  });
}

Coordinator::Coordinator(const LaunchOptions& options, Time now) : options_(options), gathering_since_(now) {}

bool Coordinator::is_there(const NodeStatus& node) const {
  return node.state != State::left && node.silence <= options_.silence_allowed;
}

const NodeStatus& Coordinator::node(int id) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [id](const auto& n) { return n.id == id; });
  TANDEM_CHECK(found != nodes_.end(), "launcher: the status of node ", id, ", which has ranks, is gone from the store");
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
  if (assignment_.action != Action::done && assignment_.action != Action::failed) fail(reason, 1);
  return assignment_;
}

void Coordinator::fail(const std::string& reason, int exit_code) {
  assignment_.action = Action::failed;
  assignment_.reason = reason;
  assignment_.exit_code = exit_code;
}

void Coordinator::gather(Time now) {
  std::vector<NodeStatus> here;
  for (const auto& node : nodes_) {
    if (node.serves_store && node.state == State::left)
      return fail(name_of(node) + " served the store and has left", node.stopped_by ? 128 + node.stopped_by : 1);
    if (!is_there(node) || node.state != State::waiting) continue;
    if (node.max_nodes != options_.max_nodes)
      return fail(name_of(node) + " was started with --nnodes " + std::to_string(node.max_nodes) + ", others with " +
                      std::to_string(options_.max_nodes),
                  1);
    here.push_back(node);
  }
  if (options_.node_rank) {
    std::stable_sort(here.begin(), here.end(), [](const auto& a, const auto& b) { return a.node_rank < b.node_rank; });
    // If a launcher died and was started again, its old status is still in the store. The old launcher is silent, so
    // it is not taken for a second node. Chosen: a launcher publishes every 0.1 s unless --monitor-interval says
    // otherwise, so one that was silent for 2 s has probably died.
    constexpr auto fresh = std::chrono::seconds(2);
    for (std::size_t i = 1; i < here.size(); ++i) {
      if (here[i - 1].node_rank != here[i].node_rank) continue;
      if (here[i - 1].silence > fresh || here[i].silence > fresh) return;
      return fail(name_of(here[i - 1]) + " and " + name_of(here[i]) + " are both the same node; each needs its own", 1);
    }
  } else {
    // The node that serves the store comes first and gets rank 0: users look for rank 0's output on that host.
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
  fail("waited " + seconds_text(options_.join_timeout) + ", but only " + std::to_string(count) + " of " +
           std::to_string(options_.min_nodes) + " nodes came" + hosts +
           (assignment_.reason.empty() ? "" : " (before that, " + assignment_.reason + ")"),
       1);
}

void Coordinator::start(std::vector<NodeStatus> nodes) {
  // Nodes beyond max_nodes wait until a place is free.
  if (nodes.size() > static_cast<std::size_t>(options_.max_nodes))
    nodes.resize(static_cast<std::size_t>(options_.max_nodes));
  assignment_.action = Action::run;
  assignment_.nodes.clear();
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
      trouble_ = name_of(status) + " has not been heard of for more than " + seconds_text(options_.silence_allowed);
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
      if (!is_there(node) || node.state != State::waiting || assignment_.node_of(node.id) >= 0) continue;
      assignment_.action = Action::stop;
      makes_room_ = true;
      newcomer_ = name_of(node) + " has joined";
    }
  }
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
  } else {
    assignment_.reason = trouble_;
    const bool may_restart = assignment_.restarts < options_.max_restarts;
    const auto& found = assignment_.failures;
    if (may_restart && !found.empty() && found.front().exit_code() == usage_exit_code)
      return fail("no restart: exit code 2 stands for a wrong command line", usage_exit_code);
    if (!may_restart || !can_go_on)
      return fail(trouble_, trouble_.empty() ? assignment_.failures.front().exit_code() : trouble_code_);
    ++assignment_.restarts;
  }
  assignment_.action = Action::gather;
  ++assignment_.generation;
  gathering_since_ = now;
  last_call_ends_.reset();
}

}  // namespace tandem::distributed

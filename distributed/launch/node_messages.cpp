#include <tandem/distributed/launch/node_messages.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <climits>
#include <map>

namespace tandem::distributed {
namespace {

using nlohmann::json;
using State = NodeStatus::State;
using Action = JobAssignment::Action;

// Returns the beginning of a text, with a note if the text is longer. It does not truncate a truncated text again.
std::string cut(const std::string& text, std::size_t most) {
  constexpr std::size_t room_for_note = 64;
  if (text.size() <= most + room_for_note) return text;
  return text.substr(0, most) + "\n(and " + std::to_string(text.size() - most) + " bytes more)";
}

// A program may report a whole log as its message, but all failures of a job must fit into one value of the store (8
// MiB). The first failure keeps the part that explain() shows, and each other failure keeps one line. Ranks often fail
// with the same message, which is written only once.
json to_json(const std::vector<WorkerFailure>& failures) {
  // JSON may need six times the bytes of a text, so the other messages need at most 6 MiB.
  constexpr std::size_t most_of_first = 16384, most_of_line = 1000, most_of_others = std::size_t{1} << 20;
  const auto most = std::clamp<std::size_t>(most_of_others / std::max<std::size_t>(1, failures.size()), 64, 1024);
  json result = json::array();
  std::map<std::string, std::size_t> written;  // maps a message to the index of its failure
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

// Returns the value. Throws an Error unless it is a whole number from `least` to `most`. Sums of two such numbers fit
// in an int.
int whole(const json& value, int least = 0, int most = 1'000'000'000) {
  const bool is_whole = value.is_number_integer();
  const auto number = is_whole ? value.get<std::int64_t>() : 0;
  TANDEM_CHECK(is_whole && least <= number && number <= most,
               value.dump(-1, ' ', false, json::error_handler_t::replace), " is not a whole number from ", least,
               " to ", most);
  return static_cast<int>(number);
}

constexpr int most_processes = 1 << 16;  // of a node; chosen: far more than a host can run
constexpr int last_exit_code = 255;
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
      TANDEM_CHECK(earlier < result.size(), "a failure refers to a missing message");
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
    throw ForeignText(std::string("launcher: the store contains a ") + what +
                      " that this version cannot read: " + error.what());
  }
}

}  // namespace

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
                  {"refused", p.refused},
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
    for (const auto& id : value.at("refused")) p.refused.push_back(whole(id));
    p.reason = value.at("reason");
    p.exit_code = whole(value.at("exit_code"), 0, last_exit_code);
    return p;
  });
}

}  // namespace tandem::distributed

#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/launch/worker_failure.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/system/process_limits.h>
#include <tandem/distributed/system/signal_name.h>

#include <nlohmann/json.hpp>

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tandem::distributed {
namespace {

using nlohmann::json;
using std::chrono::system_clock;

// Reads the error file that report_failure() or torch.distributed.elastic wrote. Returns false, which means "no
// report", if the file is missing or has other contents.
bool read_report(const std::string& path, WorkerFailure& failure) {
  // Reading a folder throws, and opening a pipe without a writer waits.
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path);
  const auto report = json::parse(file, nullptr, false);
  if (!report.is_object() || !report.contains("message")) return false;
  const auto& message = report["message"];
  if (message.is_string()) {
    failure.message = message.get<std::string>();
    return true;
  }
  if (!message.is_object() || !message.value("message", json()).is_string()) return false;
  failure.message = message["message"].get<std::string>();
  const auto extra = message.value("extraInfo", json::object());
  // Times before 1970, and times that the clock can't represent, count as missing.
  const auto number = [&](const char* name) -> std::int64_t {
    const auto value = extra.is_object() ? extra.value(name, json()) : json();
    if (value.is_string()) return std::strtoll(value.get<std::string>().c_str(), nullptr, 10);
    if (value.is_number_float()) return static_cast<std::int64_t>(std::clamp(value.get<double>(), 0.0, 1e18));
    return value.is_number() ? value.get<std::int64_t>() : 0;
  };
  failure.saw_another = number("is_of_peer") != 0;
  failure.is_printed = number("is_printed") != 0;
  constexpr auto last_second = std::chrono::floor<std::chrono::seconds>(system_clock::duration::max()).count();
  if (const auto ns = number("timestamp_ns"); ns > 0) {
    failure.time = system_clock::time_point(std::chrono::nanoseconds(ns));
  } else if (const auto s = number("timestamp"); s > 0 && s < last_second) {
    // This timestamp is in whole seconds, rounded down. The failure happened at most one second later, and not after
    // the launcher noticed the end of the process.
    failure.time = std::min(failure.time, system_clock::time_point(std::chrono::seconds(s + 1)));
  }
  return true;
}

// Returns how many processes the kernel has killed for lack of memory in this process's control group. Without a
// control group, or if this process is in the root group, returns the number for the whole machine. Returns nullopt if
// the kernel does not provide the number.
std::optional<std::int64_t> memory_kills() {
  for (const auto& limits : process_limits.entries()) {
    if (const auto kills = limits.memory_kills()) return kills;
  }
  std::ifstream file("/proc/vmstat");
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string describe_end(const WorkerEnd& end, const std::string& hint) {
  if (end.has_exited) return "exit code " + std::to_string(end.status);
  return "killed by " + signal_name(end.status) + (hint.empty() ? "" : ": " + hint);
}

MemoryWatch::MemoryWatch() : kills_before_(memory_kills()) {}

std::string MemoryWatch::hint() const {
  const auto kills = memory_kills();
  if (!kills || !kills_before_) return "probably out of memory";
  const auto count = *kills - *kills_before_;
  if (count <= 0) return "not for lack of memory (the kernel counted no such kill), so by a user or a batch system";
  auto text = "probably out of memory (the kernel killed " + std::to_string(count) +
              (count == 1 ? " process" : " processes") + " for that";
  for (const auto& limits : process_limits.entries()) {
    if (const auto limit = limits.memory()) text += "; the limit here is " + std::to_string(*limit >> 20) + " MiB";
  }
  return text + ")";
}

int WorkerFailure::exit_code() const {
  // The rank reported a failure, but the launcher stopped it before it could exit with its own code.
  if (end.was_stopping && (!end.has_exited || end.status == 0)) return 1;
  return end.has_exited ? end.status : 128 + end.status;
}

std::optional<WorkerFailure> find_failure(int rank, pid_t pid, const WorkerEnd& end, const std::string& error_file) {
  WorkerFailure failure;
  failure.rank = rank;
  failure.host = host_name();
  failure.pid = pid;
  failure.end = end;
  failure.time = end.seen;
  if (!end.has_failed()) return std::nullopt;
  const bool has_reported = read_report(error_file, failure);
  if (!has_reported && end.was_stopping) return std::nullopt;
  return failure;
}

void sort_by_cause(std::vector<WorkerFailure>& failures) {
  // A rank that was ended by a signal could not record the time of its failure. Its peers notice their lost connections
  // as soon as the launcher notices the end of the process, so this failure counts as one second older. 1 s is far more
  // than the launcher needs to notice an end, even on a loaded host. SIGABRT is different, because it usually means
  // that the rank itself threw an error that was not caught.
  const auto time = [](const WorkerFailure& failure) {
    const bool was_struck = !failure.end.has_exited && failure.end.status != SIGABRT && failure.message.empty();
    return failure.time - (was_struck ? std::chrono::seconds(1) : std::chrono::seconds(0));
  };
  const bool has_hosts = std::ranges::any_of(failures, [&](auto& f) { return f.host != failures.front().host; });
  std::ranges::stable_sort(failures, {}, [&](auto& f) { return std::pair(has_hosts && f.saw_another, time(f)); });
}

std::string explain(const std::vector<WorkerFailure>& failures, const std::vector<int>& ended_early, double seconds) {
  std::ostringstream text;
  const auto& first = failures.front();
  text.setf(std::ios::fixed);
  text.precision(1);
  text << "tandemrun: rank " << first.rank
       << (first.saw_another ? " was the first to give up on another rank: " : " failed first: ")
       << describe_end(first.end, first.hint) << " (host " << first.host << ", pid " << first.pid
       << ", the job ran for " << seconds << " s)";
  // If several ranks have the same message, only one prints it.
  const auto is_shown = [&](const WorkerFailure& failure) {
    return std::ranges::any_of(failures, [&](const auto& f) { return f.is_shown && f.message == failure.message; });
  };
  text << (is_shown(first) ? "; its error is above\n" : "\n");
  const auto indented = [&text](const std::string& block) {
    std::istringstream lines(block);
    for (std::string line; std::getline(lines, line);) text << "    " << line << "\n";
  };
  if (!first.message.empty() && !is_shown(first)) {
    text << "  it reported:\n";
    indented(first.message);
  } else if (first.message.empty() && !first.last_lines.empty()) {
    text << "  the last lines of its stderr:\n";
    for (const auto& line : first.last_lines) indented(line);
  }
  // If a rank fails for its own reason, ranks that ended early are not the cause.
  if (!ended_early.empty() && (first.saw_another || first.message.empty()))
    text << "  " << rank_list(ended_early)
         << " ended (exit code 0) while the other ranks still worked: did the loop end early there? "
            "(join(ddp, loop) covers uneven inputs)\n";
  // Many ranks often fail for the same reason. One line covers all of them.
  const auto is_like = [](const WorkerFailure& a, const WorkerFailure& b) {
    return describe_end(a.end, a.hint) == describe_end(b.end, b.hint) && a.message == b.message;
  };
  std::vector<bool> is_told(failures.size());
  for (std::size_t i = 1; i < failures.size(); ++i) {
    if (is_told[i]) continue;
    std::vector<int> ranks;
    for (std::size_t j = i; j < failures.size(); ++j) {
      if (!is_like(failures[i], failures[j])) continue;
      ranks.push_back(failures[j].rank);
      is_told[j] = true;
    }
    std::sort(ranks.begin(), ranks.end());
    text << "  then " << rank_list(ranks) << ": " << describe_end(failures[i].end, failures[i].hint);
    // The other ranks report "rank 0 failed: ...", which contains the first message.
    if (!first.message.empty() && failures[i].message.find(first.message) != std::string::npos) text << ": the same";
    else if (!failures[i].message.empty() && !is_shown(failures[i])) text << ": " << first_line(failures[i].message);
    text << "\n";
  }
  return text.str();
}

}  // namespace tandem::distributed

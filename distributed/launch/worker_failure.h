// Why a job failed: which rank was first, and what is known about it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tandem::distributed {

// How a process ended, and when that was seen.
struct WorkerEnd {
  bool has_exited = true;     // by itself; else a signal ended it
  int status = 0;             // its exit code, or the signal
  bool was_stopping = false;  // the launcher had already told it to stop
  std::chrono::system_clock::time_point seen;

  bool has_failed() const { return !has_exited || status != 0; }
};

// A rank that failed, and what is known of why.
struct WorkerFailure {
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  WorkerEnd end;
  std::string message;  // its own words, from its error file; may be empty
  std::chrono::system_clock::time_point time;
  std::vector<std::string> last_lines;  // of its stderr, where the launcher saw it
  std::string hint;                     // at why it was killed; may be empty

  int exit_code() const;
};

// The failure of one rank, if it failed: it reported one, or ended badly without having been told to stop.
std::optional<WorkerFailure> find_failure(int rank, pid_t pid, const WorkerEnd& end, const std::string& error_file);

// Tells whether the kernel killed processes here for lack of memory since this object was made.
class MemoryWatch {
 public:
  MemoryWatch();
  // What that says about a process that SIGKILL ended.
  std::string hint() const;

 private:
  std::optional<std::int64_t> kills_before_;
};

// The cause first. The clocks of several hosts are taken to agree.
void sort_by_cause(std::vector<WorkerFailure>& failures);

// The text for stderr; `ended_early`: ranks that ended well while others still worked; `seconds`: for how long the job
// ran. REQUIRES: failures sorted, at least one.
std::string explain(const std::vector<WorkerFailure>& failures, const std::vector<int>& ended_early, double seconds);

std::string signal_name(int signal);  // "SIGKILL"

}  // namespace tandem::distributed

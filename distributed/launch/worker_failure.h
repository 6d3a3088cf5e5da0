// Why a job failed: which rank failed first, and what is known about that rank.
// launcher.h lists the steps from the end of a process to this verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tandem::distributed {

// How a process ended, and when the launcher saw its end.
struct WorkerEnd {
  bool has_exited = true;     // true: the process exited by itself; false: a signal ended it
  int status = 0;             // the exit code, or the number of the signal
  bool was_stopping = false;  // the launcher had told the process to stop before it ended
  std::chrono::system_clock::time_point seen;

  bool has_failed() const { return !has_exited || status != 0; }
};

// A rank that failed, and what is known about the reason.
struct WorkerFailure {
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  WorkerEnd end;
  std::string message;       // what the rank wrote into its error file; may be empty
  bool is_printed = false;   // the rank says that it has printed the message itself
  bool is_shown = false;     // and this launcher's console has it
  bool saw_another = false;  // the message is about another rank: that one is stuck or gone
  // When the rank failed: as its error file says, or else end.seen.
  std::chrono::system_clock::time_point time;
  std::vector<std::string> last_lines;  // of the rank's stderr, if the launcher could read it
  std::string hint;                     // a guess why the process was killed; may be empty

  // What the launcher exits with if this failure is the cause: the rank's exit code, or 128 + signal. The code is 1 if
  // the rank reported a failure but was stopped before it could exit with its own code.
  int exit_code() const;
};

// Decides whether a process that has ended counts as failed, and returns its failure if so. A process that exited with
// code 0 has not failed. A process that ended badly has failed, with one exception: if the launcher had told it to stop
// and it left no report in its error file, then it only obeyed.
std::optional<WorkerFailure> find_failure(int rank, pid_t pid, const WorkerEnd& end, const std::string& error_file);

// Tells whether the kernel killed processes here for lack of memory since this object was made.
class MemoryWatch {
 public:
  MemoryWatch();
  // Says whether a process that SIGKILL ended was probably killed for lack of memory. Call it after that process ended.
  std::string hint() const;

 private:
  std::optional<std::int64_t> kills_before_;
};

// Sorts the failures so that the cause comes first: by `time`, the earliest first. A rank that a signal other than
// SIGABRT ended, and that left no message, counts as one second older. Such a rank could not note the time itself, and
// its peers see their lost connections, and report them, as soon as the launcher sees the end of the process. Failures
// with equal times keep their order. The times of several hosts are compared as they are: their clocks must agree.
void sort_by_cause(std::vector<WorkerFailure>& failures);

// Returns the text for stderr that names the rank which failed first, and then the others. `ended_early`: the ranks
// that ended with exit code 0 while others still worked. `seconds`: how long the job ran. What is shown already is not
// repeated. REQUIRES: `failures` is sorted by sort_by_cause and not empty.
std::string explain(const std::vector<WorkerFailure>& failures, const std::vector<int>& ended_early, double seconds);

}  // namespace tandem::distributed

// Explains why a job failed: which rank failed first, and what is known about it. launcher.h lists the steps from the
// end of a process to this explanation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tandem::distributed {

// Describes how a process ended, and when the launcher noticed it.
struct WorkerEnd {
  bool has_exited = true;     // true: the process exited by itself; false: a signal ended it
  int status = 0;             // the exit code, or the number of the signal
  bool was_stopping = false;  // whether the launcher had told the process to stop before it ended
  std::chrono::system_clock::time_point seen;

  bool has_failed() const { return !has_exited || status != 0; }
};

// The failure of a rank, and what is known about its reason.
struct WorkerFailure {
  int rank = 0;
  std::string host;
  pid_t pid = 0;
  WorkerEnd end;
  std::string message;       // the message in the rank's error file; may be empty
  bool is_printed = false;   // whether the rank says that it has printed the message
  bool is_shown = false;     // whether this launcher's console shows the message
  bool saw_another = false;  // whether the message is about another rank, which is stuck or gone
  // When the rank failed, according to its error file, or else end.seen.
  std::chrono::system_clock::time_point time;
  std::vector<std::string> last_lines;  // the last lines of the rank's stderr, if the launcher could read it
  std::string hint;                     // a guess why the process was killed; may be empty

  // Returns the launcher's exit code if this failure is the cause: the rank's exit code, or 128 + signal. The code is 1
  // if the rank reported a failure but was stopped before it could exit with its own code.
  int exit_code() const;
};

// Returns how the process ended: "exit code 1", or "killed by SIGKILL" with the hint, which may be empty.
std::string describe_end(const WorkerEnd& end, const std::string& hint);

// Decides whether a process that has ended counts as failed, and returns its failure if so. A process that exited with
// code 0 has not failed. A process that ended in any other way has failed, with one exception: if the launcher had told
// it to stop, and its error file has no report, it has only obeyed.
std::optional<WorkerFailure> find_failure(int rank, pid_t pid, const WorkerEnd& end, const std::string& error_file);

// Checks whether the kernel has killed processes for lack of memory since this object was made.
class MemoryWatch {
 public:
  MemoryWatch();
  // Returns a text that says whether a process ended by SIGKILL was probably killed for lack of memory. Call it after
  // that process has ended.
  std::string hint() const;

 private:
  std::optional<std::int64_t> kills_before_;
};

// Sorts the failures by `time`, the earliest first, so the cause comes first. If a signal other than SIGABRT ended a
// rank, and the rank left no message, its failure counts as one second older. Such a rank could not record the time
// itself. Its peers notice and report their lost connections as soon as the launcher notices the end of the process.
// Failures with equal times keep their order. Clocks of several hosts differ, so if the failures come from more than
// one host, those that saw another rank fail come last.
void sort_by_cause(std::vector<WorkerFailure>& failures);

// Returns the text for stderr that names the rank that failed first, and then the others. `ended_early` contains the
// ranks that ended with exit code 0 while others were still working. `seconds` is how long the job ran. The text does
// not repeat messages that are already shown. REQUIRES: `failures` is sorted by sort_by_cause() and not empty.
std::string explain(const std::vector<WorkerFailure>& failures, const std::vector<int>& ended_early, double seconds);

}  // namespace tandem::distributed

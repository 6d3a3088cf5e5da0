// Profile: records when each thread does what, as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing
// open.
//
// The trace shows each Scope (core/base/scope.h) as a range. Every thread has a lane, and ranges are nested as their
// scopes are. Times are those of the host's steady clock, which the traces of several processes of one host share. In
// builds with CUDA each range is also an NVTX range, for NVIDIA's tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// Where the time of a trace went, by lane and name of range.
struct ProfileSummary {
  struct Row {
    std::string lane, name;
    std::int64_t count = 0;  // ranges
    double seconds = 0;      // from their beginnings to their ends
    double self = 0;         // of that, outside of other ranges of the lane
  };
  double seconds = 0;     // from the start of the trace to its end
  std::vector<Row> rows;  // in no particular order
};

// A process writes one trace at a time. Any thread may call. A lane has the name of its thread (core/base/thread.h).
// Living threads that share a name are told apart by a number, and a new thread takes over the lane of one of the same
// name that has ended.
class Profile {
 public:
  // Starts a trace in the file `path`, which is overwritten. `rank` stands for the process. The file is written a few
  // times a second, and between two writes it holds valid JSON, so that a program that is killed leaves a trace of all
  // but its end. Error when a trace is being written already, or when the file can't be created.
  static void start(const std::string& path, int rank = 0);
  // Writes the rest and ends the trace; does nothing without a trace. Error when the file did not take everything, as
  // on a full disk: the file then holds, as valid JSON, what it took.
  static void stop();
  // Of the trace that was stopped last; empty before.
  static ProfileSummary summary();
};

}  // namespace tandem

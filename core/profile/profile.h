// Profile: records what each thread does, and when, as a Chrome trace. Perfetto (ui.perfetto.dev) and chrome://tracing
// open it.
//
// The trace shows each Scope (core/base/scope.h) as a range. Every thread has a lane, and ranges are nested like their
// scopes. Times are those of the host's steady clock, which the traces of all processes on a host share. In builds with
// CUDA, each range is also an NVTX range, for NVIDIA's tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// The time of a trace, by lane and name of the range.
struct ProfileSummary {
  struct Row {
    std::string lane, name;
    std::int64_t count = 0;  // ranges
    double seconds = 0;      // from their beginnings to their ends
    double self = 0;         // of `seconds`, the part outside other ranges of the lane
  };
  double seconds = 0;     // from the start of the trace to its end
  std::vector<Row> rows;  // in no particular order
};

// A process writes one trace at a time. Any thread may call these functions. A lane has the name of its thread
// (core/base/thread.h). If living threads share a name, a number is appended. A new thread reuses the lane of an ended
// thread with the same name.
class Profile {
 public:
  // Starts a trace in the file `path`, which is overwritten. `rank` identifies the process. The recorder writes to the
  // file a few times per second, and the file is valid JSON between two writes. A killed program therefore leaves a
  // trace that lacks only its end. Throws an Error if a trace is already being written, or if the file can't be
  // created.
  static void start(const std::string& path, int rank = 0);
  // Writes the rest and ends the trace; does nothing if there is no trace. Throws an Error if some data could not be
  // written, for instance because the disk is full. The file then contains the data written so far, as valid JSON.
  static void stop();
  // Returns the summary of the last stopped trace; empty if there is none.
  static ProfileSummary summary();
};

}  // namespace tandem

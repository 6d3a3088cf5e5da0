// GpuTrace: what the GPUs do while a profile is written: every kernel, copy and fill, in a lane for each stream.
#pragma once

#include <tandem/core/base/annex.h>

#include <string>

namespace tandem {

// Profile calls the two functions one at a time.
struct GpuTrace {
  // Starts the trace. Returns "", or in a few words the reason why there will be no lanes of GPUs.
  std::string (*start)();
  // Ends the trace, which then holds what the GPUs have done by now. A caller who wants all of their work in it
  // synchronises first. Does nothing when no trace was started.
  void (*stop)();
};

// Those of the GPUs that this build has.
AnnexList<GpuTrace>& gpu_traces();

}  // namespace tandem

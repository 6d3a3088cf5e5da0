// GpuTrace: records the GPUs' work while a profile is written: every kernel, copy and fill, with a lane per stream.
#pragma once

#include <tandem/core/base/annex.h>

#include <string>

namespace tandem {

// Profile never calls both functions at the same time.
struct GpuTrace {
  // Starts the trace. Returns "", or a short reason why there will be no lanes of GPUs.
  std::string (*start)();
  // Ends the trace. It contains the work that the GPUs have finished by now. To include all work, synchronise first.
  // Does nothing if no trace was started.
  void (*stop)();
};

// Returns the traces of the GPU kinds in this build.
inline constinit AnnexList<GpuTrace> gpu_traces{add_core_annexes};

}  // namespace tandem

// What the GPUs do while a profile is written: every kernel, copy and fill, in a lane for each stream. The records come
// from CUPTI, NVIDIA's library for profilers. It is loaded only when a trace is started, so programs start without it.
// https://docs.nvidia.com/cupti/main/main.html ("CUPTI Activity API").
#pragma once

#include <string>

namespace tandem::cuda {

// Starts the trace. Returns "", or in a few words the reason why there will be no lanes of GPUs: there is no CUPTI, its
// version is not the one of this build, or another profiler uses it. Profile calls this function and the next, one at a
// time.
std::string start_gpu_trace();
// Ends the trace, which then holds what the GPUs have done by now. A caller who wants all of their work in it
// synchronises first. Does nothing when no trace was started.
void stop_gpu_trace();

}  // namespace tandem::cuda

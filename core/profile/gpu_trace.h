// What the GPUs do while a profile is written: every kernel, copy and fill, in a lane for each stream. From CUPTI,
// NVIDIA's library for profilers, which is loaded when it is asked for: programs start without it.
// https://docs.nvidia.com/cupti/main/main.html ("CUPTI Activity API").
#pragma once

#include <string>

namespace tandem::cuda {

// Begins; "", or why there will be no lanes of GPUs, in a few words: no CUPTI, another version than this build's, or
// another profiler has it. Profile calls both, one at a time.
std::string start_gpu_trace();
// Ends, with what the GPUs have done by now: who wants all of it synchronises first. Nothing to do without a start.
void stop_gpu_trace();

}  // namespace tandem::cuda

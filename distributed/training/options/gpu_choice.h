// Chooses the GPU of a training program.
#pragma once

#include <tandem/core/device/device.h>
#include <tandem/distributed/job/environment.h>

namespace tandem::distributed {

// True if this build can compute on GPUs.
extern const bool build_has_cuda;

// Returns the GPU of this process. `is_auto` is whether the process may also compute on the CPU. Throws an Error with
// the reason if there is no GPU for it. If it throws on one process of a host, it throws on all.
Device find_gpu(const Environment& environment, bool is_auto);

}  // namespace tandem::distributed

// Which GPU a training program computes on.
#pragma once

#include <tandem/core/device/device.h>
#include <tandem/distributed/job/environment.h>

namespace tandem::distributed {

// Whether this build can compute on GPUs at all.
extern const bool build_has_cuda;

// The GPU of this process. `is_auto`: it may also compute on the CPU. Error, with the reason, when there is none for
// it. All processes of a host throw alike.
Device find_gpu(const Environment& environment, bool is_auto);

}  // namespace tandem::distributed

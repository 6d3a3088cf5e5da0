// Library: what cuBLASLt or cuDNN keeps for one GPU.
#pragma once

#include <tandem/core/device/plan_cache.h>

#include <array>
#include <mutex>

namespace tandem::cuda {

// A call holds the lock: cuDNN wants a handle to be used by one thread at a time, and threads that share a GPU share
// its stream anyway.
template <class Handle, class Plan>
struct Library {
  std::mutex mutex;
  Handle handle = nullptr;  // made by the first call
  PlanCache<Plan> plans;

  static Library& of(int device) {
    static auto* libraries = new std::array<Library, 64>;  // never destroyed: the driver may be gone before
    return libraries->at(static_cast<std::size_t>(device));
  }
};

}  // namespace tandem::cuda

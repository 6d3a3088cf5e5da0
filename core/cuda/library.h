// Library: the handle and the plans of cuBLASLt or cuDNN for one GPU.
#pragma once

#include <tandem/core/device/plan_cache.h>

#include <array>
#include <mutex>

namespace tandem::cuda {

// A call holds the lock of the library for its whole time. cuDNN wants a handle to be used by one thread at a time, and
// threads that share a GPU share its stream anyway.
template <class Handle, class Plan>
struct Library {
  std::mutex mutex;             // guards the handle, its use, and the plans
  Handle handle = nullptr;      // made by the first call
  PlanCache<Plan, 8192> plans;  // a training step of DeepLabV3 on a ResNet-101 has about 450

  static Library& of(int device) {
    // The libraries are never destroyed, because the driver may be gone before static objects are.
    static auto* libraries = new std::array<Library, 64>;
    return libraries->at(static_cast<std::size_t>(device));
  }
};

}  // namespace tandem::cuda

// How kernels find an index that is out of range, and note it (core/device/index_fault.h).
#pragma once

#include <tandem/core/device/index_fault.h>
#include <tandem/core/cuda/warp.cuh>

namespace tandem::cuda {

// The first of the positions that were added, in whatever order.
struct FirstPosition {
  std::int64_t position = -1;  // none
  TANDEM_HOST_DEVICE void add(std::int64_t other) {
    if (other >= 0 && (position < 0 || other < position)) position = other;
  }
  TANDEM_HOST_DEVICE void merge(const FirstPosition& other) { add(other.position); }
};

// Only one thread may call it. An earlier note that nobody has read yet stays.
__device__ inline void note(IndexFault* fault, IndexFault::Of of, const FirstPosition& bad, const std::int64_t* index,
                            std::int64_t count) {
  if (bad.position < 0 || fault->of != IndexFault::Of::none) return;
  *fault = {of, bad.position, index[bad.position], count};
}

// Any thread that finds a wrong index may call it. The first one to come writes the note.
__device__ inline void note_any(IndexFault* fault, IndexFault::Of of, std::int64_t position, std::int64_t index,
                                std::int64_t count) {
  static_assert(sizeof(IndexFault::Of) == sizeof(unsigned long long));
  auto* claim = reinterpret_cast<unsigned long long*>(&fault->of);
  if (atomicCAS(claim, 0ULL, static_cast<unsigned long long>(of)) != 0ULL) return;
  fault->position = position;
  fault->index = index;
  fault->count = count;
}

inline TANDEM_HOST_DEVICE bool is_inside(std::int64_t index, std::int64_t count) { return index >= 0 && index < count; }

}  // namespace tandem::cuda

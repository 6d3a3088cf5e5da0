// Lets kernels find an index that is out of range, and note it (core/backend/index_fault.h).
#pragma once

#include <tandem/core/backend/index_fault.h>
#include <tandem/core/cuda/warp.cuh>

namespace tandem::cuda {

// Finds the lowest position that was added, or -1.
struct FirstPosition {
  std::int64_t position = -1;  // none
  TANDEM_HOST_DEVICE void add(std::int64_t other) {
    if (other >= 0 && (position < 0 || other < position)) position = other;
  }
  TANDEM_HOST_DEVICE void merge(const FirstPosition& other) { add(other.position); }
};

// The name of an operation, as an argument of a kernel: the host's text, which the kernel hands on without reading it.
struct OperationName {
  const char* text;
};

// Only one thread may call it. An earlier note that was not read yet stays.
__device__ inline void note(IndexFault* fault, const char* operation, IndexFault::Kind kind, const FirstPosition& bad,
                            const std::int64_t* index, std::int64_t count) {
  if (bad.position < 0 || fault->operation) return;
  *fault = {operation, kind, bad.position, index[bad.position], count};
}

// Any thread that finds an index of the kind `element` out of range may call it. The first such thread writes the note.
__device__ inline void note_any(IndexFault* fault, const char* operation, std::int64_t position, std::int64_t index,
                                std::int64_t count) {
  static_assert(sizeof(operation) == sizeof(unsigned long long));
  auto* claim = reinterpret_cast<unsigned long long*>(&fault->operation);
  if (atomicCAS(claim, 0ULL, reinterpret_cast<unsigned long long>(operation)) != 0ULL) return;
  fault->position = position;
  fault->index = index;
  fault->count = count;
}

inline TANDEM_HOST_DEVICE bool is_inside(std::int64_t index, std::int64_t count) { return index >= 0 && index < count; }

}  // namespace tandem::cuda

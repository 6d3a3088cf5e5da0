// Merges what the 32 threads of a warp, or all threads of a block, have computed.
#pragma once

#include <tandem/core/cuda/launch.cuh>

#include <cstring>

namespace tandem::cuda {

// Returns the value of another lane of the warp: the lane whose number differs in the bits of lane_mask. T is copied
// bit by bit.
template <class T>
__device__ T shuffle_xor(const T& value, int lane_mask) {
  constexpr int words = static_cast<int>((sizeof(T) + 3) / 4);
  unsigned bits[words] = {};
  memcpy(bits, &value, sizeof(T));
  for (int i = 0; i < words; ++i) bits[i] = __shfl_xor_sync(0xffffffffu, bits[i], lane_mask);
  T result;
  memcpy(&result, bits, sizeof(T));
  return result;
}

// Merges the states of all 32 lanes, in a fixed order. Every lane ends with the whole, and all 32 lanes must call it.
template <class State>
__device__ void merge_warp(State& state) {
  for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) state.merge(shuffle_xor(state, lane_mask));
}

// Merges the states of all threads of a block, which has a multiple of 32 threads, at most 1,024. Only thread 0 ends
// with the whole. A __syncthreads() must come before another call.
template <class State>
__device__ void merge_block(State& state) {
  TANDEM_SHARED(of_warp, 32, State);
  merge_warp(state);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = state;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) state.merge(of_warp[warp]);
}

}  // namespace tandem::cuda

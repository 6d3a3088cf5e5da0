// What the 32 threads of a warp, or all threads of a block, know together.
#pragma once

#include <tandem/core/cuda/launch.cuh>

#include <cstring>

namespace tandem::cuda {

// The same value of another lane. T is copied bit by bit.
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

// Every lane ends with state.merge of all 32 lanes. All 32 must call it. The order is fixed.
template <class State>
__device__ void merge_warp(State& state) {
  for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) state.merge(shuffle_xor(state, lane_mask));
}

// The same for all threads of a block, of whom there are a multiple of 32, 1,024 at most. Only thread 0's result is
// whole. Another call needs a __syncthreads() in between.
template <class State>
__device__ void merge_block(State& state) {
  __shared__ __align__(16) unsigned char memory[32 * sizeof(State)];
  State* of_warp = reinterpret_cast<State*>(memory);
  merge_warp(state);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = state;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) state.merge(of_warp[warp]);
}

}  // namespace tandem::cuda

// Sums per channel over all rows of an image, in one kernel: over the rows of a thread, then of a block; the last block
// to finish combines those of all blocks, in double and in their order: the result is the same whichever block that is.
//
// What is summed is a State: it begins as nothing, merge(other) adds what others have, channel(j) is one channel's
// share, a State::Channel; State::Whole merges those.
#pragma once

#include <tandem/core/cuda/channels.cuh>

#include <cstring>

namespace tandem::cuda {

inline constexpr int row_batch = 4;                 // rows that a thread asks memory for at once
inline constexpr std::int64_t most_sums = 132 * 4;  // blocks that fill a large GPU and leave little to combine

// Loads a thread's next rows, `row_batch` of them at most, 0 for those that are not there; returns how many are.
template <int lanes, class T>
__device__ int load_rows(const T* from, const ChannelPlace& at, std::int64_t row, std::int64_t rows,
                         std::int64_t channels, Numbers<compute_t<T>, lanes> (&to)[row_batch]) {
  int n = 0;
  for (int u = 0; u < row_batch; ++u) {
    to[u] = {};
    if (row + u * at.step >= rows) continue;
    to[u] = load<lanes>(from + (row + u * at.step) * channels + at.channel);
    ++n;
  }
  return n;
}

// Threads of a block that lie `distance` apart merge what they have into the first of them. All threads must call it;
// those after the last whole `distance` have nothing that counts.
template <class State>
__device__ void merge_across(State& state, unsigned distance) {
  static_assert(sizeof(State) % 4 == 0);
  constexpr unsigned words = sizeof(State) / 4;
  __shared__ unsigned memory[words][ChannelTiles::threads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, place = thread / distance;
  unsigned bits[words];
  for (unsigned places = blockDim.x * blockDim.y / distance; places > 1;) {
    const unsigned half = (places + 1) / 2;
    if (place >= half && place < places) {
      memcpy(bits, &state, sizeof(State));
      for (unsigned i = 0; i < words; ++i) memory[i][thread] = bits[i];
    }
    __syncthreads();
    if (place + half < places) {
      for (unsigned i = 0; i < words; ++i) bits[i] = memory[i][thread + half * distance];
      State other;
      memcpy(&other, bits, sizeof(State));
      state.merge(other);
    }
    __syncthreads();
    places = half;
  }
}

// How many blocks of each column of them have finished: 0 before and after every kernel. Kernels that sum run one after
// the other, as everything does that uses a GPU's stream.
static __device__ unsigned finished_blocks[ChannelTiles::most_tiles];

// Whether all other blocks of this column of blocks have called it; what they wrote before can be read then.
inline __device__ bool is_last_block() {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0)
    is_last = atomicInc(&finished_blocks[blockIdx.y], gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  __threadfence();
  return is_last;
}

// part(place, rows, channels) is the State of a thread's own rows; finish(c, whole) takes that of all rows for each
// channel.
template <class State, class Part, class Finish>
__global__ void sum_rows(std::int64_t rows, std::int64_t channels, Part part, typename State::Channel* partial,
                         Finish finish) {
  constexpr int lanes = Part::lanes_of_thread;
  const ChannelPlace at(lanes);
  State state;
  if (at.channel < channels) state = part(at, rows, channels);
  merge_across(state, blockDim.x);
  if (at.channel < channels && threadIdx.y == 0)
    for (int j = 0; j < lanes; ++j) partial[blockIdx.x * channels + at.channel + j] = state.channel(j);
  if (!is_last_block()) return;

  // Now a thread for each channel and as many slices of the blocks as that leaves.
  const unsigned width = blockDim.x * lanes, thread = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned slices = blockDim.x * blockDim.y / width, slice = thread / width;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.y) * width + thread % width;
  typename State::Whole whole;
  if (slice < slices && channel < channels)
    for (unsigned block = slice; block < gridDim.x; block += slices) whole.merge(partial[block * channels + channel]);
  merge_across(whole, width);
  if (slice == 0 && channel < channels) finish(channel, whole);
}

template <class State, class Part, class Finish>
void sum_over_rows(const Array& x, Part part, Finish finish) {
  const std::int64_t rows = x.dim(0) * x.dim(2) * x.dim(3), channels = x.dim(1);
  const ChannelTiles tiles(rows, channels, Part::lanes_of_thread, size_of(x.dtype()), row_batch, most_sums);
  using Channel = typename State::Channel;
  const Array partial =
      Array::empty({tiles.grid.x * channels * static_cast<std::int64_t>(sizeof(Channel))}, DType::u8, x.device());
  launch(sum_rows<State, Part, Finish>, tiles.grid, tiles.block, rows, channels, part,
         static_cast<Channel*>(partial.raw()), finish);
}

}  // namespace tandem::cuda

// Sums per channel over all rows of an image, in one kernel: first over the rows of a thread, then over those of a
// block. The last block to finish combines the sums of all blocks, in double and in the order of the blocks, so the
// result is the same whichever block that is.
//
// What is summed is a State. It begins as nothing, and merge(other) adds what another state has. channel(j) is the
// share of channel j, a State::Channel, and a State::Whole merges those.
#pragma once

#include <tandem/core/cuda/channels.cuh>

#include <cstring>

namespace tandem::cuda {

inline constexpr int row_batch = 4;  // rows that a thread loads at once
// Blocks that keep a large GPU busy and leave little to combine.
inline constexpr std::int64_t most_sums = 4 * multiprocessors;

// Loads a thread's next rows, at most `row_batch` of them, with 0 for rows that do not exist. Returns how many rows
// exist.
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

// The threads of a block that lie `distance` apart merge their states into the first of them. All threads must call it.
// The states of threads after the last whole `distance` do not count.
template <class State>
__device__ void merge_across(State& state, unsigned distance) {
  static_assert(sizeof(State) % 4 == 0);
  constexpr unsigned words = sizeof(State) / 4;
  TANDEM_SHARED(memory, words, unsigned[ChannelTiles::threads]);
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

// How many blocks of each column of blocks have finished. It is 0 before and after every kernel. Kernels that sum run
// one after the other, as everything does that uses a GPU's stream.
static __device__ unsigned finished_blocks[ChannelTiles::most_tiles];

// Whether all other blocks of this column of blocks have called is_last_block() before this one. What they wrote before
// that can then be read.
inline __device__ bool is_last_block() {
  TANDEM_SHARED(is_last, 1, bool);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0)
    *is_last = atomicInc(&finished_blocks[blockIdx.y], gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  __threadfence();
  return *is_last;
}

// part(place, rows, channels) gives the State of a thread's own rows. For each channel, finish(c, whole) takes the
// State::Whole of all rows.
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

  // From here on each channel has a thread, and the blocks' sums are cut into as many slices as there are threads left.
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

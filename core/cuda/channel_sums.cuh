// Sums per channel over all rows of an image, in one kernel: first over the rows of a thread, then over those of a
// block, and then over all blocks, in double (block_tree.cuh).
//
// The sums are in a State, as in block_tree.cuh. Its channel(j) is the part of channel j, a State::Channel. A
// State::Whole merges these parts.
#pragma once

#include <tandem/core/cuda/block_tree.cuh>
#include <tandem/core/cuda/channels.cuh>

namespace tandem::cuda {

// Small additional work. Separate blocks of the same launch do it next to those that sum, so it needs no kernel of its
// own. It handles `numbers` numbers. Block number i of n calls beside(i, n).
struct NothingBeside {
  static constexpr std::int64_t numbers = 0;
  __device__ void operator()(unsigned, unsigned) const {}
};

// part(place, rows, channels) gives the State of a thread's own rows. A multiprocessor runs Part::at_once blocks at a
// time. There are only as many blocks as the GPU runs at a time, so they begin together. For each channel, finish(c,
// whole) takes the State::Whole of all rows. The first `parts` blocks of a row of blocks sum.
template <class State, class Part, class Finish, class Beside>
__global__ void __launch_bounds__(ChannelTiles::threads, Part::at_once)
    sum_rows(std::int64_t rows, std::int64_t channels, unsigned parts, Part part,
             TreeStates<typename State::Channel, typename State::Whole> states, Finish finish, Beside beside) {
  if (blockIdx.x >= parts) {
    if (blockIdx.y == 0) beside(blockIdx.x - parts, gridDim.x - parts);
    return;
  }
  constexpr int lanes = Part::lanes_of_thread;
  const ChannelPlace at(lanes, parts);
  State state;
  if (at.channel < channels) state = part(at, rows, channels);
  merge_across(state, blockDim.x);
  if (at.channel < channels && threadIdx.y == 0)
    for (int j = 0; j < lanes; ++j) states.of_parts[blockIdx.x * channels + at.channel + j] = state.channel(j);
  const unsigned width = blockDim.x * lanes;
  merge_parts(TreePlace{blockIdx.x, parts, blockIdx.y}, states,
              TreeOutputs{channels, static_cast<std::int64_t>(blockIdx.y) * width, width}, finish);
}

template <class State, class Part, class Finish, class Beside = NothingBeside>
void sum_over_rows(const Array& x, Part part, Finish finish, Beside beside = {}) {
  const std::int64_t rows = x.dim(0) * x.dim(2) * x.dim(3), channels = x.dim(1);
  constexpr std::int64_t most_sums = Part::at_once * multiprocessors;
  ChannelTiles tiles(rows, channels, Part::lanes_of_thread, size_of(x.dtype()), row_batch, most_sums);
  const unsigned parts = tiles.grid.x;
  const TreeMemory<typename State::Channel, typename State::Whole> memory(parts, channels, x.device());
  if (beside.numbers > 0) tiles.grid.x += blocks_for(beside.numbers, 8 * ChannelTiles::threads, most_sums).x;
  launch(sum_rows<State, Part, Finish, Beside>, tiles.grid, tiles.block, rows, channels, parts, part, memory.states(),
         finish, beside);
}

}  // namespace tandem::cuda

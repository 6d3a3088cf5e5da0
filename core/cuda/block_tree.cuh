// Merges the results of all blocks of a kernel, without a second kernel and without one thread that merges all of them.
// The blocks are divided into groups, about as many groups as a group has blocks. The last block of a group to finish
// merges the states of its group. The last group to finish merges the states of the groups. Of n blocks, no block
// merges more than about sqrt(n) states (or a few dozen, if that is more), and all of its threads take part. The order
// in which states are merged does not depend on which block is last, so the result is the same each time.
//
// The result of a block is a State. It begins empty, and merge(other) adds another State to it.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cuda/launch.cuh>

#include <cmath>
#include <cstring>

namespace tandem::cuda {

inline constexpr unsigned tree_threads = 256;  // the most threads of a block
inline constexpr unsigned one_group = 64;      // a second level takes longer than its threads take for so many parts

// The threads of a block that lie `distance` apart merge their states into the first of them. All threads must call it.
// If the number of threads is not a multiple of `distance`, the states of the threads beyond the last multiple are
// ignored.
template <class State>
__device__ void merge_across(State& state, unsigned distance) {
  static_assert(sizeof(State) % 4 == 0);
  constexpr unsigned words = sizeof(State) / 4;
  TANDEM_SHARED(memory, words, unsigned[tree_threads]);
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

// This block is number `part` of the `parts` blocks that have the same outputs: those of tile number `tile`.
struct TreePlace {
  unsigned part, parts, tile;
};

// The states of all parts, and of all groups of parts, for each output.
template <class State, class Whole>
struct TreeStates {
  State* of_parts;      // (parts, outputs)
  Whole* of_groups;     // (groups, outputs)
  unsigned group_size;  // parts of a group; the last one may have fewer
};

// Memory for TreeStates.
template <class State, class Whole>
class TreeMemory {
 public:
  TreeMemory(unsigned parts, std::int64_t outputs, Device device)
      : group_size_(parts <= one_group ? parts : static_cast<unsigned>(std::ceil(std::sqrt(parts)))),
        parts_(bytes_of<State>(parts, outputs, device)),
        groups_(bytes_of<Whole>((parts + group_size_ - 1) / group_size_, outputs, device)) {}
  TreeStates<State, Whole> states() const {
    return {static_cast<State*>(parts_.raw()), static_cast<Whole*>(groups_.raw()), group_size_};
  }

 private:
  template <class T>
  static Array bytes_of(unsigned count, std::int64_t outputs, Device device) {
    return Array::empty({count * outputs * static_cast<std::int64_t>(sizeof(T))}, DType::u8, device);
  }
  const unsigned group_size_;
  const Array parts_, groups_;
};

// The numbers of blocks of each group, and of groups of each tile, that have finished. They are 0 before and after each
// merge, because atomicInc resets a counter when the last block counts. All merges of a .cu file share these counters
// and must run one after the other, as all work in a GPU's one stream does. Two streams, or two branches of a graph,
// would each need separate counters. Merges have at most `most_tiles` tiles, and so few parts that the groups of all
// tiles are not more than that either.
inline constexpr std::int64_t most_tiles = 4096;
static __device__ unsigned finished_parts[most_tiles], finished_groups[most_tiles];

// Returns whether the other blocks, of `count` in all, have called this function before this block. If so, this block
// can read what they wrote before their calls. It is enough that one thread executes the memory fences, because the
// barriers pass their order on to the other threads of the block (PTX ISA, "Memory consistency model", causality
// order).
inline __device__ bool is_last_of(unsigned count, unsigned* finished) {
  TANDEM_SHARED(is_last, 1, bool);
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    *is_last = atomicInc(finished, count - 1) == count - 1;
    __threadfence();
  }
  __syncthreads();
  return *is_last;
}

// Outputs `first` to `first + width` of all `outputs`.
struct TreeOutputs {
  std::int64_t outputs, first;
  unsigned width;
};

// Merges `count` states of each output, which are `outputs` apart. Thread i < width ends with the whole of output first
// + i. The threads of the block are divided evenly among the outputs.
template <class Whole, class State>
__device__ Whole merge_stored(const State* states, unsigned count, const TreeOutputs& at) {
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned slices = blockDim.x * blockDim.y / at.width, slice = thread / at.width;
  const std::int64_t output = at.first + thread % at.width;
  Whole whole;
  if (slice < slices && output < at.outputs) {
    constexpr unsigned at_once = 4;  // loads that are on their way together
    for (unsigned first = slice; first < count; first += at_once * slices) {
      State some[at_once];
      for (unsigned u = 0; u < at_once; ++u)
        if (const unsigned i = first + u * slices; i < count) some[u] = states[i * at.outputs + output];
      for (unsigned u = 0; u < at_once; ++u)
        if (first + u * slices < count) whole.merge(some[u]);
    }
  }
  merge_across(whole, at.width);
  return whole;
}

// Called by all threads of all blocks when the states of this block are in states.of_parts. finish(output, whole) takes
// the Whole of each output.
template <class State, class Whole, class Finish>
__device__ void merge_parts(const TreePlace& place, const TreeStates<State, Whole>& states, const TreeOutputs& at,
                            Finish finish) {
  const unsigned size = states.group_size, groups = (place.parts + size - 1) / size;
  const unsigned group = place.part / size, rest = place.parts - group * size, members = rest < size ? rest : size;
  if (!is_last_of(members, &finished_parts[place.tile * groups + group])) return;
  Whole whole = merge_stored<Whole>(states.of_parts + group * size * at.outputs, members, at);
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const bool has_output = thread < at.width && at.first + thread < at.outputs;
  if (groups > 1) {
    if (has_output) states.of_groups[group * at.outputs + at.first + thread] = whole;
    if (!is_last_of(groups, &finished_groups[place.tile])) return;
    whole = merge_stored<Whole>(states.of_groups, groups, at);
  }
  if (has_output) finish(at.first + thread, whole);
}

// The same for a single output: merges the states of `parts` blocks, of which this one is number `part`. Thread 0 of
// each block has the state of its block. finish(whole) takes the whole.
template <class State, class Finish>
__device__ void merge_blocks(unsigned part, unsigned parts, const State& state, TreeStates<State, State> states,
                             Finish finish) {
  if (parts == 1) {
    if (threadIdx.x == 0) finish(state);
    return;
  }
  if (threadIdx.x == 0) states.of_parts[part] = state;
  merge_parts(TreePlace{part, parts, 0}, states, TreeOutputs{1, 0, 1},
              [&](std::int64_t, const State& whole) { finish(whole); });
}

}  // namespace tandem::cuda

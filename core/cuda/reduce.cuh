// Runs reductions on a GPU. The elements that become one output are divided over several threads of a block and, if
// there are few outputs, over several blocks, which then merge their states (block_tree.cuh). The caller gives
// `finish`: finish.add(state, value, index) adds an element to a state, and finish(output, state) writes an output.
#pragma once

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cuda/reduce.h>
#include <tandem/core/cuda/block_tree.cuh>
#include <tandem/core/cuda/warp.cuh>

#include <algorithm>
#include <bit>
#include <optional>

namespace tandem::cuda {

// Splits x's dimensions into those that y keeps, and those in which y has size 1. Neighbours that one stride can walk
// over count as one dimension.
struct ReduceNest {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  ReduceNest(const Array& x, const Array& y) {
    for (int i = 0; i < x.ndim(); ++i) {
      if (y.shape()[i] == 1) add(reduced_shape, reduced_strides, x.shape()[i], x.strides()[i]);
      else add(kept_shape, kept_strides, x.shape()[i], x.strides()[i]);
    }
  }
  std::int64_t outputs() const { return kept_shape.product(); }
  std::int64_t count() const { return reduced_shape.product(); }  // elements of x that become one element of y
  // Returns whether numbers of x that are neighbours in memory belong to different outputs.
  bool keeps_neighbours_apart() const {
    const int last = kept_shape.ndim() - 1;
    return last >= 0 && kept_strides[last] == 1 && kept_shape[last] > 1;
  }

 private:
  static void add(Shape& shape, Strides& strides, std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (const int last = shape.ndim() - 1; last >= 0 && strides[last] == size * stride) {
      shape[last] *= size;
      strides[last] = stride;
    } else {
      shape.push_back(size);
      strides.push_back(stride);
    }
  }
};

inline constexpr std::int64_t reduce_threads = 256;
inline constexpr std::int64_t most_reducing = 8 * multiprocessors;  // blocks: as many as a large GPU runs at a time

// ReduceNest as the argument of a kernel. A block has `width` outputs, and `depth` threads for each of them. The
// elements of an output are divided into `parts`, each of which has a block, so that many threads are busy even with
// few outputs: blockIdx.x says which outputs, blockIdx.y which part.
struct DeviceNest {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  std::int64_t outputs, count;
  unsigned width, depth, parts;
  TANDEM_HOST_DEVICE std::int64_t output_offset(std::int64_t output) const {
    return offset_of(output, kept_shape.ndim(), kept_shape.begin(), kept_strides.begin());
  }
  TANDEM_HOST_DEVICE std::int64_t element_offset(std::int64_t i) const {
    if (reduced_shape.ndim() == 1) return i * *reduced_strides.begin();
    return offset_of(i, reduced_shape.ndim(), reduced_shape.begin(), reduced_strides.begin());
  }
  TANDEM_HOST_DEVICE std::int64_t begin_of(std::int64_t part) const { return count * part / parts; }

  // The state of every depth'th element of this block's part, beginning with number `line`.
  template <class State, class T, class Finish>
  __device__ State add_elements(const T* x, std::int64_t output, unsigned line, const Finish& finish) const {
    State state;
    if (output >= outputs || line >= depth) return state;
    const T* base = x + output_offset(output);
    const std::int64_t end = begin_of(blockIdx.y + 1);
    for (std::int64_t i = begin_of(blockIdx.y) + line; i < end; i += depth)
      finish.add(state, base[element_offset(i)], i);
    return state;
  }

  // In the first thread of each output (`is_first`), `state` is the merged state of all threads of the block that work
  // on that output.
  template <class State, class Finish>
  __device__ void finish_block(const State& state, std::int64_t output, bool is_first, TreeStates<State, State> states,
                               const Finish& finish) const {
    if (parts == 1) {
      if (is_first && output < outputs) finish(output, state);
      return;
    }
    if (is_first && output < outputs) states.of_parts[blockIdx.y * outputs + output] = state;
    merge_parts(TreePlace{blockIdx.y, parts, blockIdx.x}, states,
                TreeOutputs{outputs, static_cast<std::int64_t>(blockIdx.x) * width, width}, finish);
  }
};

// For arrays in which the elements of an output are neighbours in memory: neighbouring threads take neighbouring
// elements. `depth` is the size of a warp or of the block.
template <class State, class T, class Finish>
__global__ void reduce_rows(DeviceNest nest, const T* x, TreeStates<State, State> states, Finish finish) {
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * nest.width + threadIdx.x / nest.depth;
  const unsigned line = threadIdx.x % nest.depth;
  State state = nest.add_elements<State>(x, output, line, finish);
  if (nest.depth == 32) merge_warp(state);
  else merge_block(state);
  nest.finish_block(state, output, line == 0, states, finish);
}

// For arrays in which different outputs are neighbours in memory: neighbouring threads take neighbouring outputs.
template <class State, class T, class Finish>
__global__ void reduce_columns(DeviceNest nest, const T* x, TreeStates<State, State> states, Finish finish) {
  const std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * nest.width + threadIdx.x % nest.width;
  const unsigned line = threadIdx.x / nest.width;
  State state = nest.add_elements<State>(x, output, line, finish);
  merge_across(state, nest.width);
  nest.finish_block(state, output, line == 0, states, finish);
}

template <class State, class T, class Finish>
void reduce_states(const Array& x, const Array& y, Finish finish) {
  constexpr std::int64_t fewest = 16;  // a thread has at least so many elements before an output has several blocks
  const ReduceNest shapes(x, y);
  const bool columns = shapes.keeps_neighbours_apart();
  const std::int64_t outputs = shapes.outputs(), count = shapes.count();
  std::int64_t depth, width;
  if (columns) {
    // 32 neighbours are at least a sector of memory.
    depth = std::min(reduce_threads / std::min<std::int64_t>(outputs, 32),
                     static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count / 8 + 1))));
    width = std::min(outputs, reduce_threads / depth);
  } else {
    // A warp for each output, unless few outputs would leave most of the GPU idle.
    const bool by_warps = count <= 32 * fewest || outputs >= reduce_threads / 32 * most_reducing;
    depth = by_warps ? 32 : reduce_threads;
    width = reduce_threads / depth;
  }
  const std::int64_t tiles = (outputs + width - 1) / width;
  const std::int64_t parts =
      std::clamp<std::int64_t>(most_reducing / tiles, 1, std::max<std::int64_t>(1, count / (depth * fewest)));
  const DeviceNest nest{shapes.kept_shape,
                        shapes.reduced_shape,
                        shapes.kept_strides,
                        shapes.reduced_strides,
                        outputs,
                        count,
                        static_cast<unsigned>(width),
                        static_cast<unsigned>(depth),
                        static_cast<unsigned>(parts)};
  std::optional<TreeMemory<State, State>> memory;
  if (parts > 1) memory.emplace(nest.parts, outputs, x.device());
  launch(columns ? reduce_columns<State, T, Finish> : reduce_rows<State, T, Finish>,
         dim3(static_cast<unsigned>(tiles), nest.parts), dim3(reduce_threads), nest, static_cast<const T*>(x.raw()),
         memory ? memory->states() : TreeStates<State, State>{}, finish);
}

// The `finish` of a reduction: combines elements with the operation Op, and writes the result.
template <class Op, class T>
struct FinishReduction {
  Op op;
  std::int64_t count;
  ReductionOutput out;
  template <class State>
  TANDEM_HOST_DEVICE void add(State& state, T value, std::int64_t index) const {
    reductions::add(op, state, value, index);
  }
  template <class State>
  TANDEM_HOST_DEVICE void operator()(std::int64_t output, const State& state) const {
    out.write(output, op.template result<T>(state, count));
  }
};

template <class Op>
void reduce_with(const Op& op, const Array& x, const Array& y) {
  const auto run = [&](auto type) {
    // A bool is a byte that is 0 or 1.
    using T = std::conditional_t<std::is_same_v<decltype(type), bool>, std::uint8_t, decltype(type)>;
    reduce_states<typename Op::template State<T>, T>(
        x, y, FinishReduction<Op, T>{op, x.numel() / y.numel(), {y.raw(), y.dtype()}});
  };
  if (y.numel() == 0) return;
  if constexpr (reductions::takes_integers<Op>) dispatch(x.dtype(), run);
  else dispatch_floating(x.dtype(), "reduction", run);
}

}  // namespace tandem::cuda

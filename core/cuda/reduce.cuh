// How a reduction runs on a GPU. A warp or a thread takes each part of the elements that become one output, and then a
// warp merges the parts. The caller gives `finish`: finish.add(state, value, index) adds an element to a state, and
// finish(output, state) writes an output.
#pragma once

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cuda/reduce.h>
#include <tandem/core/cuda/launch.cuh>
#include <tandem/core/cuda/warp.cuh>

#include <algorithm>

namespace tandem::cuda {

// Splits x's dimensions into those that y keeps, and those in which y has size 1.
struct ReduceNest {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  ReduceNest(const Array& x, const Array& y) {
    for (int i = 0; i < x.ndim(); ++i) {
      const bool reduced = y.shape()[i] == 1;
      (reduced ? reduced_shape : kept_shape).push_back(x.shape()[i]);
      (reduced ? reduced_strides : kept_strides).push_back(x.strides()[i]);
    }
  }
  std::int64_t outputs() const { return kept_shape.product(); }
  std::int64_t count() const { return reduced_shape.product(); }  // elements of x that become one element of y
  // Whether numbers of x that are neighbours in memory belong to different outputs.
  bool keeps_neighbours_apart() const {
    const int last = kept_shape.ndim() - 1;
    return last >= 0 && kept_strides[last] == 1 && kept_shape[last] > 1;
  }
};

inline constexpr int reduce_threads = 256;
inline constexpr std::int64_t most_threads = 2048 * multiprocessors;  // as many as a large GPU runs at a time

// ReduceNest as the argument of a kernel. The elements of an output are divided into `parts`, so that many threads are
// busy even with few outputs.
struct DeviceNest {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  std::int64_t outputs, count, parts;
  TANDEM_HOST_DEVICE std::int64_t output_offset(std::int64_t output) const {
    return offset_of(output, kept_shape.ndim(), kept_shape.begin(), kept_strides.begin());
  }
  TANDEM_HOST_DEVICE std::int64_t element_offset(std::int64_t i) const {
    return offset_of(i, reduced_shape.ndim(), reduced_shape.begin(), reduced_strides.begin());
  }
  TANDEM_HOST_DEVICE std::int64_t begin_of(std::int64_t part) const { return count * part / parts; }
};

// A warp takes each part of each output. For arrays in which the elements of an output are neighbours in memory.
template <class State, class T, class Finish>
__global__ void reduce_rows(DeviceNest nest, const T* x, State* partial, Finish finish) {
  const std::int64_t item = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (item >= nest.outputs * nest.parts) return;
  const std::int64_t output = item / nest.parts, part = item % nest.parts;
  const T* base = x + nest.output_offset(output);
  State state;
  const std::int64_t end = nest.begin_of(part + 1);
  for (std::int64_t i = nest.begin_of(part) + lane; i < end; i += 32)
    finish.add(state, base[nest.element_offset(i)], i);
  merge_warp(state);
  if (lane != 0) return;
  if (nest.parts == 1) finish(output, state);
  else partial[item] = state;
}

// A thread takes each part of each output. For arrays in which different outputs are neighbours in memory.
template <class State, class T, class Finish>
__global__ void reduce_columns(DeviceNest nest, const T* x, State* partial, Finish finish) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= nest.outputs * nest.parts) return;
  const std::int64_t part = item / nest.outputs, output = item % nest.outputs;
  const T* base = x + nest.output_offset(output);
  State state;
  const std::int64_t end = nest.begin_of(part + 1);
  for (std::int64_t i = nest.begin_of(part); i < end; ++i) finish.add(state, base[nest.element_offset(i)], i);
  if (nest.parts == 1) finish(output, state);
  else partial[output * nest.parts + part] = state;
}

// A warp merges the parts of each output.
template <class State, class Finish>
__global__ void merge_parts(std::int64_t outputs, std::int64_t parts, const State* partial, Finish finish) {
  const std::int64_t output = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (output >= outputs) return;
  State state;
  for (std::int64_t part = lane; part < parts; part += 32) state.merge(partial[output * parts + part]);
  merge_warp(state);
  if (lane == 0) finish(output, state);
}

template <class State, class T, class Finish>
void reduce_states(const Array& x, const Array& y, Finish finish) {
  const ReduceNest shapes(x, y);
  const bool columns = shapes.keeps_neighbours_apart();
  DeviceNest nest{shapes.kept_shape,
                  shapes.reduced_shape,
                  shapes.kept_strides,
                  shapes.reduced_strides,
                  shapes.outputs(),
                  shapes.count(),
                  1};
  const std::int64_t threads_per_item = columns ? 1 : 32;
  constexpr std::int64_t fewest = 16;  // a part has at least so many elements for each thread
  nest.parts = std::clamp<std::int64_t>(most_threads / (nest.outputs * threads_per_item), 1,
                                        std::max<std::int64_t>(1, nest.count / (threads_per_item * fewest)));
  Array scratch;
  State* partial = nullptr;
  if (nest.parts > 1) {
    const auto bytes = nest.outputs * nest.parts * static_cast<std::int64_t>(sizeof(State));
    scratch = Array::empty({bytes}, DType::u8, x.device());
    partial = static_cast<State*>(scratch.raw());
  }
  const std::int64_t all = nest.outputs * nest.parts * threads_per_item;
  const dim3 blocks(static_cast<unsigned>((all + reduce_threads - 1) / reduce_threads));
  launch(columns ? reduce_columns<State, T, Finish> : reduce_rows<State, T, Finish>, blocks, dim3(reduce_threads), nest,
         static_cast<const T*>(x.raw()), partial, finish);
  if (nest.parts == 1) return;
  launch(merge_parts<State, Finish>,
         dim3(static_cast<unsigned>((nest.outputs * 32 + reduce_threads - 1) / reduce_threads)), dim3(reduce_threads),
         nest.outputs, nest.parts, partial, finish);
}

// The `finish` of a reduction: adds elements by the operation, and writes its result.
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
  if constexpr (Op::takes_integers) dispatch(x.dtype(), run);
  else dispatch_floating(x.dtype(), "reduction", run);
}

}  // namespace tandem::cuda

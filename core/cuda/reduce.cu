#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/launch.cuh>
#include <tandem/core/cuda/warp.cuh>
#include <tandem/core/reductions.h>

#include <algorithm>

namespace tandem {

namespace {

constexpr int threads = 256;
constexpr std::int64_t many = 132 * 2048;  // threads that fill a large GPU

// ReducePlan as a kernel's argument. The elements of an output are divided into `parts`, so that few outputs keep many
// threads busy too.
struct DevicePlan {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  std::int64_t outputs, count, parts;
  TANDEM_HOST_DEVICE std::int64_t output_offset(std::int64_t output) const {
    return offset_of(output, kept_shape.rank(), kept_shape.begin(), kept_strides.begin());
  }
  TANDEM_HOST_DEVICE std::int64_t element_offset(std::int64_t i) const {
    return offset_of(i, reduced_shape.rank(), reduced_shape.begin(), reduced_strides.begin());
  }
  TANDEM_HOST_DEVICE std::int64_t begin_of(std::int64_t part) const { return count * part / parts; }
};

// A warp for each output and part: for elements of an output that are neighbours in memory.
template <class State, class T, class Finish>
__global__ void reduce_rows(DevicePlan plan, const T* x, State* partial, Finish finish) {
  const std::int64_t item = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (item >= plan.outputs * plan.parts) return;
  const std::int64_t output = item / plan.parts, part = item % plan.parts;
  const T* base = x + plan.output_offset(output);
  State state;
  const std::int64_t end = plan.begin_of(part + 1);
  for (std::int64_t i = plan.begin_of(part) + lane; i < end; i += 32) state.add(base[plan.element_offset(i)], i);
  cuda::merge_warp(state);
  if (lane != 0) return;
  if (plan.parts == 1) finish(output, state);
  else partial[item] = state;
}

// A thread for each output and part: for outputs that are neighbours in memory.
template <class State, class T, class Finish>
__global__ void reduce_columns(DevicePlan plan, const T* x, State* partial, Finish finish) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= plan.outputs * plan.parts) return;
  const std::int64_t part = item / plan.outputs, output = item % plan.outputs;
  const T* base = x + plan.output_offset(output);
  State state;
  const std::int64_t end = plan.begin_of(part + 1);
  for (std::int64_t i = plan.begin_of(part); i < end; ++i) state.add(base[plan.element_offset(i)], i);
  if (plan.parts == 1) finish(output, state);
  else partial[output * plan.parts + part] = state;
}

// A warp for each output.
template <class State, class Finish>
__global__ void merge_parts(std::int64_t outputs, std::int64_t parts, const State* partial, Finish finish) {
  const std::int64_t output = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (output >= outputs) return;
  State state;
  for (std::int64_t part = lane; part < parts; part += 32) state.merge(partial[output * parts + part]);
  cuda::merge_warp(state);
  if (lane == 0) finish(output, state);
}

template <class State, class T, class Finish>
void reduce_with(const Array& x, const Array& y, Finish finish) {
  const ReducePlan shapes(x, y);
  const bool columns = shapes.keeps_neighbours_apart();
  DevicePlan plan{shapes.kept_shape, shapes.reduced_shape, shapes.kept_strides, shapes.reduced_strides,
                  shapes.outputs(), shapes.count(), 1};
  const std::int64_t threads_per_item = columns ? 1 : 32;
  constexpr std::int64_t fewest = 16;  // elements of a thread that are worth a part
  plan.parts = std::clamp<std::int64_t>(many / (plan.outputs * threads_per_item), 1,
                                        std::max<std::int64_t>(1, plan.count / (threads_per_item * fewest)));
  Array scratch;
  State* partial = nullptr;
  if (plan.parts > 1) {
    const auto bytes = plan.outputs * plan.parts * static_cast<std::int64_t>(sizeof(State));
    scratch = Array::empty({bytes}, DType::u8, x.device());
    partial = static_cast<State*>(scratch.raw());
  }
  const std::int64_t all = plan.outputs * plan.parts * threads_per_item;
  const dim3 blocks(static_cast<unsigned>((all + threads - 1) / threads));
  cuda::launch(columns ? reduce_columns<State, T, Finish> : reduce_rows<State, T, Finish>, blocks, dim3(threads), plan,
               static_cast<const T*>(x.raw()), partial, finish);
  if (plan.parts == 1) return;
  cuda::launch(merge_parts<State, Finish>, dim3(static_cast<unsigned>((plan.outputs * 32 + threads - 1) / threads)),
               dim3(threads), plan.outputs, plan.parts, partial, finish);
}

template <class T, class Out>
struct WriteSum {
  Out* out;
  double scale;
  bool is_mean;
  TANDEM_HOST_DEVICE void operator()(std::int64_t output, const Sum<T>& sum) const {
    out[output] = is_mean ? static_cast<Out>(static_cast<compute_t<Out>>(sum.total * scale))
                          : static_cast<Out>(static_cast<compute_t<Out>>(sum.total));
  }
};

template <class T>
struct WriteLargest {
  T* values;              // null: not wanted
  std::int64_t* indices;  // likewise
  TANDEM_HOST_DEVICE void operator()(std::int64_t output, const Largest<T>& largest) const {
    if (values) values[output] = static_cast<T>(largest.value);
    if (indices) indices[output] = largest.index;
  }
};

}  // namespace

void CudaBackend::reduce(Reduction op, const Array& x, const Array& y) {
  if (y.numel() == 0) return;
  dispatch(x.dtype(), [&](auto type) {
    using T = decltype(type);
    if (op == Reduction::sum || op == Reduction::mean) {
      dispatch(y.dtype(), [&](auto result) {
        using Out = decltype(result);
        const double scale = 1.0 / static_cast<double>(x.numel() / y.numel());
        reduce_with<Sum<T>, T>(x, y, WriteSum<T, Out>{static_cast<Out*>(y.raw()), scale, op == Reduction::mean});
      });
      return;
    }
    WriteLargest<T> write{};
    if (op == Reduction::max) write.values = static_cast<T*>(y.raw());
    else write.indices = static_cast<std::int64_t*>(y.raw());
    reduce_with<Largest<T>, T>(x, y, write);
  });
}

}  // namespace tandem

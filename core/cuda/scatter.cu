#include <tandem/core/array/index_walk.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/cuda/index_check.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

struct Put {
  template <class T>
  __device__ void operator()(T* y, T source) const {
    *y = source;
  }
};
// Adds atomically, in any order. In sums of floats the last digits depend on the order, unless a thread takes a whole
// line; integers wrap around.
struct Add {
  template <class T>
  __device__ void operator()(T* y, T source) const {
    atomicAdd(y, source);
  }
};

// `nest` walks over index, over source and, in step with them, over y with its position along the dimension held at 0.
template <class T, class F>
__global__ void scatter_elements(LoopNest<3> nest, std::int64_t numel, std::int64_t count, std::int64_t stride,
                                 cuda::OperationName operation, F f, T* y, const std::int64_t* index, const T* source,
                                 IndexFault* fault) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel; i += step) {
    const auto offset = nest.offsets(i);
    const std::int64_t wanted = index[offset[1]];
    if (cuda::is_inside(wanted, count)) f(y + offset[0] + wanted * stride, source[offset[2]]);
    else cuda::note_any(fault, operation.text, offset[1], wanted, count);
  }
}

// The strides of y, index and source along the dimension, and the size of index and source there.
struct Along {
  std::int64_t size, y, index, source;
};

// The same with a thread for each line along the dimension, of which there are `lines`. Only one thread writes to an
// element of y, in the order of the indices. `nest` walks over the first elements of the lines.
template <class T, class F>
__global__ void scatter_lines(LoopNest<3> nest, std::int64_t lines, Along along, std::int64_t count,
                              cuda::OperationName operation, F f, T* y, const std::int64_t* index, const T* source,
                              IndexFault* fault) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < lines; i += step) {
    const auto offset = nest.offsets(i);
    for (std::int64_t j = 0; j < along.size; ++j) {
      const std::int64_t at = offset[1] + j * along.index, wanted = index[at];
      if (cuda::is_inside(wanted, count)) f(y + offset[0] + wanted * along.y, source[offset[2] + j * along.source]);
      else cuda::note_any(fault, operation.text, at, wanted, count);
    }
  }
}

template <class T, class F>
void scatter_with(const Array& source, int dim, const Array& index, const char* operation, const Array& y, F f,
                  IndexFault* fault) {
  if (math_mode().deterministic) {
    const Array first = index.slice(dim, 0, 1), first_source = source.slice(dim, 0, 1);
    const Array base = repeated_along(y, dim, first.shape());
    const Along along{index.shape()[dim], y.strides()[dim], index.strides()[dim], source.strides()[dim]};
    cuda::launch(scatter_lines<T, F>, cuda::blocks_for(first.numel(), threads), dim3(threads),
                 LoopNest<3>({&base, &first, &first_source}), first.numel(), along, y.shape()[dim],
                 cuda::OperationName{operation}, f, static_cast<T*>(y.raw()),
                 static_cast<const std::int64_t*>(index.raw()), static_cast<const T*>(source.raw()), fault);
    return;
  }
  const Array base = repeated_along(y, dim, index.shape());
  cuda::launch(scatter_elements<T, F>, cuda::blocks_for(index.numel(), threads), dim3(threads),
               LoopNest<3>({&base, &index, &source}), index.numel(), y.shape()[dim], y.strides()[dim],
               cuda::OperationName{operation}, f, static_cast<T*>(y.raw()),
               static_cast<const std::int64_t*>(index.raw()), static_cast<const T*>(source.raw()), fault);
}

}  // namespace

std::int64_t CudaBackend::scatter(const Array& source, int dim, const Array& index, bool add, const char* operation,
                                  const Array& y) {
  IndexFault* fault = cuda::fault_of(index_);
  const auto run = [&]<class T>(T, auto f) { scatter_with<T>(source, dim, index, operation, y, f, fault); };
  if (!add) {
    dispatch_bits(y.dtype(), [&](auto bits) { run(bits, Put{}); });
    return -1;
  }
  switch (y.dtype()) {
    case DType::f32: run(float{}, Add{}); break;
    case DType::f64: run(double{}, Add{}); break;
    case DType::i64: run(0ULL, Add{}); break;
    case DType::i32: run(0U, Add{}); break;
    default: detail::fail("scatter: no sums of ", y.dtype());
  }
  return -1;
}

}  // namespace tandem

#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/launch.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;
constexpr int per_thread = static_cast<int>(Backend::mask_chunk / threads);

template <class Bits>
__global__ void keep_triangle(std::int64_t numel, std::int64_t rows, std::int64_t columns, std::int64_t diagonal,
                              bool keep_upper, const Bits* x, Bits* y) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel; i += step) {
    const std::int64_t above = i % columns - i / columns % rows;
    y[i] = (keep_upper ? above >= diagonal : above <= diagonal) ? x[i] : Bits(0);
  }
}

// The sum of `count` over the threads of a block that come before this one. `total` receives the sum over all threads.
__device__ int count_before(int count, int& total) {
  TANDEM_SHARED(counts, threads, int);
  counts[threadIdx.x] = count;
  __syncthreads();
  for (unsigned distance = 1; distance < threads; distance *= 2) {
    const int other = threadIdx.x >= distance ? counts[threadIdx.x - distance] : 0;
    __syncthreads();
    counts[threadIdx.x] += other;
    __syncthreads();
  }
  total = counts[threads - 1];
  const int before = counts[threadIdx.x] - count;
  __syncthreads();
  return before;
}

// The first element of this thread: thread t of block b looks at per_thread elements, and a block at mask_chunk of
// them.
__device__ std::int64_t first_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * Backend::mask_chunk + threadIdx.x * per_thread;
}

__device__ int count_of_thread(const bool* mask, std::int64_t n) {
  const std::int64_t first = first_of_thread();
  int count = 0;
  for (std::int64_t i = first; i < first + per_thread && i < n; ++i) count += mask[i];
  return count;
}

__global__ void count_chunks(std::int64_t n, const bool* mask, std::int64_t* before) {
  int total;
  count_before(count_of_thread(mask, n), total);
  if (threadIdx.x == 0) before[blockIdx.x + 1] = total;
}

// Runs in one block: before[i + 1] becomes the sum of all counts up to there.
__global__ void add_up(std::int64_t chunks, std::int64_t* before) {
  std::int64_t sum = 0;
  for (std::int64_t first = 0; first < chunks; first += threads) {
    const std::int64_t c = first + threadIdx.x;
    const int count = c < chunks ? static_cast<int>(before[c + 1]) : 0;
    int total;
    const int earlier = count_before(count, total);
    if (c < chunks) before[c + 1] = sum + earlier + count;
    sum += total;
  }
  if (threadIdx.x == 0) before[0] = 0;
}

__global__ void write_positions(std::int64_t n, Shape shape, const bool* mask, const std::int64_t* before,
                                std::int64_t* y) {
  int total;
  const int earlier = count_before(count_of_thread(mask, n), total);
  const int ndim = shape.ndim();
  std::int64_t* next = y + (before[blockIdx.x] + earlier) * ndim;
  const std::int64_t first = first_of_thread();
  for (std::int64_t i = first; i < first + per_thread && i < n; ++i) {
    if (!mask[i]) continue;
    std::int64_t rest = i;
    for (int d = ndim - 1; d >= 0; --d) {
      const std::int64_t size = d == 0 ? n : shape.begin()[d];
      next[d] = rest % size;
      rest /= size;
    }
    next += ndim;
  }
}

}  // namespace

void CudaBackend::triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const Array& y) {
  dispatch_bits(x.dtype(), [&]<class Bits>(Bits) {
    cuda::launch(keep_triangle<Bits>, cuda::blocks_for(y.numel(), threads), dim3(threads), y.numel(), y.shape()[1],
                 y.shape()[2], diagonal, keep_upper, static_cast<const Bits*>(x.raw()), static_cast<Bits*>(y.raw()));
  });
}

void CudaBackend::count_true(const Array& mask, const Array& before) {
  const std::int64_t chunks = before.numel() - 1;
  auto* counts = static_cast<std::int64_t*>(before.raw());
  cuda::launch(count_chunks, dim3(static_cast<unsigned>(chunks)), dim3(threads), mask.numel(),
               static_cast<const bool*>(mask.raw()), counts);
  cuda::launch(add_up, dim3(1), dim3(threads), chunks, counts);
}

void CudaBackend::true_positions(const Array& mask, const Array& before, const Shape& shape, const Array& y) {
  cuda::launch(write_positions, dim3(static_cast<unsigned>(before.numel() - 1)), dim3(threads), mask.numel(), shape,
               static_cast<const bool*>(mask.raw()), static_cast<const std::int64_t*>(before.raw()),
               static_cast<std::int64_t*>(y.raw()));
}

}  // namespace tandem

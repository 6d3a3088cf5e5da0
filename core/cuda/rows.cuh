// The rows of numbers that softmax and cross-entropy process: dimension n of a row-major (before, n, after). If `after`
// is 1, a warp takes a row, unless rows are short and numerous enough for single threads. Otherwise a thread takes a
// row, and neighbouring threads take neighbouring rows.
#pragma once

#include <tandem/core/cuda/warp.cuh>

#include <limits>

namespace tandem::cuda {

inline constexpr int row_threads = 256;

struct Rows {
  std::int64_t before, n, after;
  explicit Rows(const Array& x) : before(x.dim(0)), n(x.dim(1)), after(x.dim(2)) {}
  TANDEM_HOST_DEVICE std::int64_t count() const { return before * after; }
  bool is_for_warps() const { return after == 1 && (n > 32 || before < multiprocessors * row_threads); }
  dim3 blocks(bool by_warps) const { return blocks_for(count() * (by_warps ? 32 : 1), row_threads); }
  dim3 blocks() const { return blocks(is_for_warps()); }
};

// NaN is never the highest number. The sum of exponentials is then NaN, so all results are NaN.
template <class C>
struct Highest {
  C value = -std::numeric_limits<C>::infinity();
  TANDEM_HOST_DEVICE void add(C other) { value = value < other ? other : value; }
  TANDEM_HOST_DEVICE void merge(const Highest& other) { add(other.value); }
};

template <class C>
struct Total {
  C value = 0;
  TANDEM_HOST_DEVICE void merge(const Total& other) { value += other.value; }
};

// The threads that go over a row: the 32 threads of a warp, each of which takes every 32nd element (ByWarp), or one
// thread alone.
struct ByWarp {
  std::int64_t row, row_step, first, step;
  __device__ explicit ByWarp(const Rows&)
      : row((static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32),
        row_step(static_cast<std::int64_t>(gridDim.x) * blockDim.x / 32),
        first(threadIdx.x % 32),
        step(32) {}
  __device__ std::int64_t offset(const Rows& all, std::int64_t r, std::int64_t i) const { return r * all.n + i; }
  template <class State>
  __device__ void merge(State& state) const {
    merge_warp(state);
  }
};
struct ByThread {
  std::int64_t row, row_step, first = 0, step = 1;
  __device__ explicit ByThread(const Rows&)
      : row(static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x),
        row_step(static_cast<std::int64_t>(gridDim.x) * blockDim.x) {}
  __device__ std::int64_t offset(const Rows& all, std::int64_t r, std::int64_t i) const {
    return (r / all.after * all.n + i) * all.after + r % all.after;
  }
  template <class State>
  __device__ void merge(State&) const {}
};

// For row r: its highest number, and the sum of exp(x - highest).
template <class C, class By, class T>
__device__ C highest_of_row(const By& by, const Rows& all, std::int64_t r, const T* x) {
  Highest<C> highest;
  for (std::int64_t i = by.first; i < all.n; i += by.step) highest.add(static_cast<C>(x[by.offset(all, r, i)]));
  by.merge(highest);
  return highest.value;
}
template <class C, class By, class T>
__device__ C sum_of_exponentials(const By& by, const Rows& all, std::int64_t r, const T* x, C highest) {
  Total<C> sum;
  for (std::int64_t i = by.first; i < all.n; i += by.step)
    sum.value += std::exp(static_cast<C>(x[by.offset(all, r, i)]) - highest);
  by.merge(sum);
  return sum.value;
}

}  // namespace tandem::cuda

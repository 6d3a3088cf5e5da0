// The weights of attention. cuBLAS computes the products around them. A fused kernel would not have to hold the
// weights; cuDNN has one, but only through its graph API.
#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/cuda/rows.cuh>

#include <limits>

namespace tandem {

namespace {

constexpr int threads = 256;

// Each warp takes a row, and then the row that is as many rows further on as there are warps.
__device__ std::int64_t first_row() { return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; }
__device__ std::int64_t row_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x / 32; }

// The highest number, or NaN if one of the numbers is NaN. A row of NaN is thus different from a row that attends to
// nothing.
template <class C>
struct Highest {
  C value = -std::numeric_limits<C>::infinity();
  TANDEM_HOST_DEVICE void add(C other) { value = value < other || other != other ? other : value; }
  TANDEM_HOST_DEVICE void merge(const Highest& other) { add(other.value); }
};

template <class C>
struct Mask {
  const C* added = nullptr;  // null: nothing is added
  bool is_causal;
  int ndim = 0;
  std::int64_t shape[Dims::max_ndim] = {}, strides[Dims::max_ndim] = {};

  explicit Mask(const AttentionMask& mask) : is_causal(mask.is_causal) {
    if (!mask.added.defined()) return;
    added = static_cast<const C*>(mask.added.raw());
    ndim = mask.added.ndim();
    for (int d = 0; d < ndim; ++d) {
      shape[d] = mask.added.shape()[d];
      strides[d] = mask.added.strides()[d];
    }
  }
};

template <class C, class T>
__global__ void weights_rows(std::int64_t rows, std::int64_t queries, std::int64_t keys, const T* scores, Mask<C> mask,
                             C scale, T* weights) {
  const int lane = threadIdx.x % 32;
  for (std::int64_t r = first_row(); r < rows; r += row_step()) {
    const std::int64_t query = r % queries;
    const std::int64_t n = mask.is_causal && query + 1 < keys ? query + 1 : keys;
    const C* m = nullptr;
    if (mask.added) m = mask.added + offset_of(r, mask.ndim - 1, mask.shape, mask.strides);
    const std::int64_t step = mask.added ? mask.strides[mask.ndim - 1] : 0;
    const T* x = scores + r * keys;
    const auto score = [&](std::int64_t i) { return static_cast<C>(x[i]) * scale + (m ? m[i * step] : C(0)); };
    Highest<C> highest;
    for (std::int64_t i = lane; i < n; i += 32) highest.add(score(i));
    cuda::merge_warp(highest);
    const bool sees_nothing = highest.value == -std::numeric_limits<C>::infinity();
    cuda::Total<C> sum;
    for (std::int64_t i = lane; i < n && !sees_nothing; i += 32) sum.value += std::exp(score(i) - highest.value);
    cuda::merge_warp(sum);
    for (std::int64_t i = lane; i < keys; i += 32)
      weights[r * keys + i] =
          static_cast<T>(sees_nothing || i >= n ? C(0) : std::exp(score(i) - highest.value) / sum.value);
  }
}

template <class C, class T>
__global__ void weights_grad_rows(std::int64_t rows, std::int64_t keys, const T* weights, const T* grad, C scale,
                                  T* grad_scores) {
  for (std::int64_t r = first_row(); r < rows; r += row_step()) {
    const std::int64_t begin = r * keys + threadIdx.x % 32, end = (r + 1) * keys;
    cuda::Total<C> sum;
    for (std::int64_t i = begin; i < end; i += 32) sum.value += static_cast<C>(weights[i]) * static_cast<C>(grad[i]);
    cuda::merge_warp(sum);
    for (std::int64_t i = begin; i < end; i += 32)
      grad_scores[i] = static_cast<T>(static_cast<C>(weights[i]) * (static_cast<C>(grad[i]) - sum.value) * scale);
  }
}

}  // namespace

void CudaBackend::attention_weights(const Array& scores, const AttentionMask& mask, double scale,
                                    const Array& weights) {
  const std::int64_t keys = scores.dim(-1), rows = scores.numel() / keys;
  dispatch_floating(scores.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(weights_rows<C, T>, cuda::blocks_for(rows * 32, threads), dim3(threads), rows, scores.dim(-2), keys,
                 static_cast<const T*>(scores.raw()), Mask<C>(mask), static_cast<C>(scale),
                 static_cast<T*>(weights.raw()));
  });
}

void CudaBackend::attention_weights_grad(const Array& weights, const Array& grad, double scale,
                                         const Array& grad_scores) {
  const std::int64_t keys = weights.dim(-1), rows = weights.numel() / keys;
  dispatch_floating(weights.dtype(), "attention", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(weights_grad_rows<C, T>, cuda::blocks_for(rows * 32, threads), dim3(threads), rows, keys,
                 static_cast<const T*>(weights.raw()), static_cast<const T*>(grad.raw()), static_cast<C>(scale),
                 static_cast<T*>(grad_scores.raw()));
  });
}

}  // namespace tandem

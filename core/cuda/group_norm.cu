// Normalisation within groups of channels. A block of threads takes one group of one sample, and looks at its numbers
// several times. The gradients of weight and bias are summed for each channel, first over parts of all numbers, and
// then over the parts, in order.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/warp.cuh>

#include <algorithm>

namespace tandem {

namespace {

constexpr int most_threads = 512;  // of a block

// GroupNorm (core/formulas/group_norm.h) for kernels: `before` or `after` is 1.
struct Places {
  std::int64_t samples, before, channels, after, groups, size;  // size is the number of channels in a group
  bool is_centred;
  explicit Places(const GroupNorm& how)
      : samples(how.samples),
        before(how.before),
        channels(how.channels),
        after(how.after),
        groups(how.groups),
        size(how.channels / how.groups),
        is_centred(how.is_centred) {}
  TANDEM_HOST_DEVICE std::int64_t count() const { return before * size * after; }
  // The channel of element i of group r, and where the element is in memory.
  TANDEM_HOST_DEVICE std::int64_t channel(std::int64_t r, std::int64_t i) const {
    return r % groups * size + i / after % size;
  }
  TANDEM_HOST_DEVICE std::int64_t offset(std::int64_t r, std::int64_t i) const {
    if (before == 1) return r * count() + i;
    return (r / groups * before + i / size) * channels + r % groups * size + i % size;
  }
};

template <class C>
struct TwoSums {
  C a = 0, b = 0;
  TANDEM_HOST_DEVICE void merge(const TwoSums& other) {
    a += other.a;
    b += other.b;
  }
};

// Every thread of the block gets the sums of the whole block.
template <class C>
__device__ TwoSums<C> sum_of_block(TwoSums<C> sums) {
  TANDEM_SHARED(whole, 2, C);
  cuda::merge_block(sums);
  if (threadIdx.x == 0) {
    whole[0] = sums.a;
    whole[1] = sums.b;
  }
  __syncthreads();
  sums.a = whole[0];
  sums.b = whole[1];
  __syncthreads();
  return sums;
}

template <class C, class T>
__global__ void __launch_bounds__(most_threads)
    normalise_groups(Places at, C eps, const T* x, const C* weight, const C* bias, T* y, C* mean_out, C* rstd_out) {
  const std::int64_t n = at.count();
  for (std::int64_t r = blockIdx.x; r < at.samples * at.groups; r += gridDim.x) {
    TwoSums<C> sums;
    for (std::int64_t i = threadIdx.x; at.is_centred && i < n; i += blockDim.x)
      sums.a += static_cast<C>(x[at.offset(r, i)]);
    const C mean = at.is_centred ? sum_of_block(sums).a / static_cast<C>(n) : C(0);
    TwoSums<C> squares;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const C d = static_cast<C>(x[at.offset(r, i)]) - mean;
      squares.a += d * d;
    }
    const C rstd = 1 / std::sqrt(sum_of_block(squares).a / static_cast<C>(n) + eps);
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const std::int64_t place = at.offset(r, i), c = at.channel(r, i);
      C v = (static_cast<C>(x[place]) - mean) * rstd;
      if (weight) v *= weight[c];
      if (bias) v += bias[c];
      y[place] = static_cast<T>(v);
    }
    if (threadIdx.x != 0) continue;
    mean_out[r] = mean;
    rstd_out[r] = rstd;
  }
}

template <class C, class T>
__global__ void __launch_bounds__(most_threads)
    grad_of_groups(Places at, const T* x, const C* weight, const C* mean, const C* rstd, const T* grad, T* grad_x) {
  const std::int64_t n = at.count();
  for (std::int64_t r = blockIdx.x; r < at.samples * at.groups; r += gridDim.x) {
    const C m = mean[r], s = rstd[r];
    TwoSums<C> sums;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const std::int64_t place = at.offset(r, i);
      const C g = static_cast<C>(grad[place]) * (weight ? weight[at.channel(r, i)] : C(1));
      sums.a += g;
      sums.b += g * (static_cast<C>(x[place]) - m) * s;
    }
    sums = sum_of_block(sums);
    const C a = at.is_centred ? sums.a / static_cast<C>(n) : C(0), b = sums.b / static_cast<C>(n);
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const std::int64_t place = at.offset(r, i);
      const C g = static_cast<C>(grad[place]) * (weight ? weight[at.channel(r, i)] : C(1));
      grad_x[place] = static_cast<T>((g - a - (static_cast<C>(x[place]) - m) * s * b) * s);
    }
  }
}

// For channels last, where channels are neighbours: a thread for each channel, and a blockIdx.y for each part of the
// pixels of all samples.
template <class C, class T>
__global__ void sum_columns(Places at, const T* x, const C* mean, const C* rstd, const T* grad, TwoSums<C>* partial) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= at.channels) return;
  TwoSums<C> sums;
  for (std::int64_t row = blockIdx.y; row < at.samples * at.before; row += gridDim.y) {
    const std::int64_t group = row / at.before * at.groups + c / at.size, place = row * at.channels + c;
    const C g = static_cast<C>(grad[place]);
    sums.a += g * (static_cast<C>(x[place]) - mean[group]) * rstd[group];
    sums.b += g;
  }
  partial[blockIdx.y * at.channels + c] = sums;
}

// For row-major arrays, where each channel of a sample is a run of numbers: a warp for each run.
template <class C, class T>
__global__ void sum_runs(Places at, const T* x, const C* mean, const C* rstd, const T* grad, TwoSums<C>* partial) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x / 32;
  for (std::int64_t run = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
       run < at.samples * at.channels; run += step) {
    const std::int64_t group = run / at.size;
    TwoSums<C> sums;
    for (std::int64_t i = threadIdx.x % 32; i < at.after; i += 32) {
      const C g = static_cast<C>(grad[run * at.after + i]);
      sums.a += g * (static_cast<C>(x[run * at.after + i]) - mean[group]) * rstd[group];
      sums.b += g;
    }
    cuda::merge_warp(sums);
    if (threadIdx.x % 32 == 0) partial[run] = sums;
  }
}

// A warp adds up the parts of each channel, in an order that does not change.
template <class C>
__global__ void add_parts(std::int64_t parts, std::int64_t channels, const TwoSums<C>* partial, C* grad_weight,
                          C* grad_bias) {
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  TwoSums<double> sums;
  for (std::int64_t p = threadIdx.x % 32; c < channels && p < parts; p += 32) {
    const TwoSums<C> part = partial[p * channels + c];
    sums.merge({static_cast<double>(part.a), static_cast<double>(part.b)});
  }
  cuda::merge_warp(sums);
  if (c >= channels || threadIdx.x % 32 != 0) return;
  if (grad_weight) grad_weight[c] = static_cast<C>(sums.a);
  if (grad_bias) grad_bias[c] = static_cast<C>(sums.b);
}

constexpr std::int64_t most_blocks = 32 * cuda::multiprocessors;

dim3 blocks_of(const Places& at) {
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(at.samples * at.groups, 1, most_blocks)));
}
// The threads of a block: one warp for small groups, and up to 16 warps for large ones.
dim3 threads_of(const Places& at) {
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>((at.count() + 127) / 128, 1, most_threads / 32)) * 32);
}

template <class C>
C* pointer(const Array* array) {
  return array ? static_cast<C*>(array->raw()) : nullptr;
}
template <class T>
T* pointer(const Array& array) {
  return static_cast<T*>(array.raw());
}

}  // namespace

void CudaBackend::group_norm(const GroupNorm& how, const Array& x, const Array* weight, const Array* bias,
                             const Array& y, const Array& mean, const Array& rstd) {
  const Places at(how);
  dispatch_floating(x.dtype(), "group_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(normalise_groups<C, T>, blocks_of(at), threads_of(at), at, static_cast<C>(how.eps),
                 pointer<const T>(x), pointer<const C>(weight), pointer<const C>(bias), pointer<T>(y), pointer<C>(mean),
                 pointer<C>(rstd));
  });
}

void CudaBackend::group_norm_grad(const GroupNorm& how, const Array& x, const Array* weight, const Array& mean,
                                  const Array& rstd, const Array& grad_y, const Array* grad_x, const Array* grad_weight,
                                  const Array* grad_bias) {
  const Places at(how);
  dispatch_floating(x.dtype(), "group_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T *in = pointer<const T>(x), *grad = pointer<const T>(grad_y);
    const C *m = pointer<const C>(mean), *s = pointer<const C>(rstd);
    if (grad_x)
      cuda::launch(grad_of_groups<C, T>, blocks_of(at), threads_of(at), at, in, pointer<const C>(weight), m, s, grad,
                   pointer<T>(*grad_x));
    if (!grad_weight && !grad_bias) return;
    constexpr int threads = 128;
    const std::int64_t parts =
        at.after == 1 ? std::clamp<std::int64_t>(at.samples * at.before / 16, 1, 256) : at.samples;
    const Array scratch =
        Array::empty({parts * at.channels * static_cast<std::int64_t>(sizeof(TwoSums<C>))}, DType::u8, x.device());
    auto* partial = static_cast<TwoSums<C>*>(scratch.raw());
    const dim3 columns(static_cast<unsigned>((at.channels + threads - 1) / threads));
    if (at.after == 1)
      cuda::launch(sum_columns<C, T>, dim3(columns.x, static_cast<unsigned>(parts)), dim3(threads), at, in, m, s, grad,
                   partial);
    else
      cuda::launch(sum_runs<C, T>, cuda::blocks_for(at.samples * at.channels * 32, threads), dim3(threads), at, in, m,
                   s, grad, partial);
    cuda::launch(add_parts<C>, dim3(static_cast<unsigned>((at.channels * 32 + threads - 1) / threads)), dim3(threads),
                 parts, at.channels, partial, pointer<C>(grad_weight), pointer<C>(grad_bias));
  });
}

}  // namespace tandem

#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/faults.h>
#include <tandem/core/reductions.h>
#include <tandem/core/softmax_gradients.h>
#include <tandem/core/cuda/index_check.cuh>

#include <algorithm>
#include <limits>

namespace tandem {

namespace {

constexpr int threads = 256;

// Every kernel here gives a row to a warp, which then takes the row that is as many further as there are warps.
struct Rows {
  std::int64_t rows, n;
};
__device__ std::int64_t first_row() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
}
__device__ std::int64_t row_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x / 32; }

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

// log(sum(exp(x))) of a row, without overflow.
template <class C, class T>
__device__ C log_sum_exp(const T* x, std::int64_t n) {
  const int lane = threadIdx.x % 32;
  Highest<C> highest;
  for (std::int64_t i = lane; i < n; i += 32) highest.add(static_cast<C>(x[i]));
  cuda::merge_warp(highest);
  Total<C> sum;
  for (std::int64_t i = lane; i < n; i += 32) sum.value += std::exp(static_cast<C>(x[i]) - highest.value);
  cuda::merge_warp(sum);
  return highest.value + std::log(sum.value);
}

template <class C, class T>
__global__ void log_softmax_rows(Rows all, const T* in, T* out) {
  for (std::int64_t r = first_row(); r < all.rows; r += row_step()) {
    const T* x = in + r * all.n;
    const C total = log_sum_exp<C>(x, all.n);
    for (std::int64_t i = threadIdx.x % 32; i < all.n; i += 32)
      out[r * all.n + i] = static_cast<T>(static_cast<C>(x[i]) - total);
  }
}

template <class C, class T>
__global__ void log_softmax_grad_rows(Rows all, const T* out, const T* grad, T* result) {
  for (std::int64_t r = first_row(); r < all.rows; r += row_step()) {
    const std::int64_t begin = r * all.n + threadIdx.x % 32, end = (r + 1) * all.n;
    Total<C> sum;
    for (std::int64_t i = begin; i < end; i += 32) sum.value += static_cast<C>(grad[i]);
    cuda::merge_warp(sum);
    for (std::int64_t i = begin; i < end; i += 32)
      result[i] =
          static_cast<T>(log_softmax_gradient(static_cast<C>(out[i]), static_cast<C>(grad[i]), sum.value));
  }
}

// What is kept of the rows: the sum of their losses, and the first whose target is no class.
struct Losses {
  Sum<double> sum;
  cuda::FirstPosition bad;
  TANDEM_HOST_DEVICE void merge(const Losses& other) {
    sum.merge(other.sum);
    bad.merge(other.bad);
  }
};

// What becomes of them in the end, for one thread.
template <class C>
struct WriteLoss {
  C* loss;
  const std::int64_t* target;
  Rows all;
  IndexFault* fault;
  __device__ void operator()(const Losses& losses) const {
    const double mean = losses.sum.total / static_cast<double>(all.rows);
    *loss = losses.bad.position < 0 ? static_cast<C>(mean) : std::numeric_limits<C>::quiet_NaN();
    cuda::note(fault, IndexFault::Of::cross_entropy, losses.bad, target, all.n);
  }
};

// partial: one for each block; null where there is one block only, which then finishes.
template <class C, class T>
__global__ void __launch_bounds__(1024)
    cross_entropy_rows(Rows all, const T* logits, const std::int64_t* target, C* probabilities,
                       Losses* partial, WriteLoss<C> write) {
  const int lane = threadIdx.x % 32;
  Losses losses;
  for (std::int64_t r = first_row(); r < all.rows; r += row_step()) {
    const T* x = logits + r * all.n;
    const C total = log_sum_exp<C>(x, all.n);
    for (std::int64_t i = lane; i < all.n; i += 32)
      probabilities[r * all.n + i] = std::exp(static_cast<C>(x[i]) - total);
    if (lane != 0) continue;
    const std::int64_t wanted = target[r];
    if (wanted >= 0 && wanted < all.n) losses.sum.add(total - static_cast<C>(x[wanted]), r);
    else losses.bad.add(r);
  }
  cuda::merge_block(losses);
  if (threadIdx.x != 0) return;
  if (partial) partial[blockIdx.x] = losses;
  else write(losses);
}

template <class C>
__global__ void merge_blocks(int blocks, const Losses* partial, WriteLoss<C> write) {
  Losses losses;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += blockDim.x) losses.merge(partial[i]);
  cuda::merge_block(losses);
  if (threadIdx.x == 0) write(losses);
}

template <class C, class T>
__global__ void cross_entropy_grad_rows(Rows all, const C* probabilities, const std::int64_t* target,
                                        const C* grad_loss, T* grad) {
  const C factor = static_cast<C>(static_cast<double>(*grad_loss) / static_cast<double>(all.rows));
  for (std::int64_t r = first_row(); r < all.rows; r += row_step())
    for (std::int64_t i = threadIdx.x % 32; i < all.n; i += 32)
      grad[r * all.n + i] =
          static_cast<T>(cross_entropy_gradient(probabilities[r * all.n + i], i == target[r], factor));
}

}  // namespace

void CudaBackend::log_softmax(const Array& x, const Array& y) {
  const Rows all{x.numel() / x.dim(-1), x.dim(-1)};
  dispatch_floating(x.dtype(), "log_softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(log_softmax_rows<C, T>, cuda::blocks_for(all.rows * 32, threads), dim3(threads), all,
                 static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()));
  });
}

void CudaBackend::log_softmax_grad(const Array& y, const Array& grad_y, const Array& grad_x) {
  const Rows all{y.numel() / y.dim(-1), y.dim(-1)};
  dispatch_floating(y.dtype(), "log_softmax", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(log_softmax_grad_rows<C, T>, cuda::blocks_for(all.rows * 32, threads), dim3(threads), all,
                 static_cast<const T*>(y.raw()), static_cast<const T*>(grad_y.raw()),
                 static_cast<T*>(grad_x.raw()));
  });
}

// Returns at once: a target that is no class is noted for the next synchronisation.
std::int64_t CudaBackend::cross_entropy(const Array& logits, const Array& target, const Array& loss,
                                        const Array& probabilities) {
  const Rows all{logits.dim(0), logits.dim(1)};
  // A batch of a few classes is one block's work, and then the second kernel's start would cost more than it saves.
  const bool is_small = all.rows * ((all.n + 31) / 32) <= 256;
  const dim3 blocks = is_small ? dim3(1) : cuda::blocks_for(all.rows * 32, threads);
  const dim3 block(is_small ? static_cast<unsigned>(std::clamp<std::int64_t>(all.rows, 1, 32)) * 32
                            : threads);
  Array scratch;
  Losses* partial = nullptr;
  if (!is_small) {
    scratch =
        Array::empty({static_cast<std::int64_t>(blocks.x * sizeof(Losses))}, DType::u8, logits.device());
    partial = static_cast<Losses*>(scratch.raw());
  }
  const auto* wanted = static_cast<const std::int64_t*>(target.raw());
  dispatch_floating(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const WriteLoss<C> write{static_cast<C*>(loss.raw()), wanted, all, cuda::fault_of(index_)};
    cuda::launch(cross_entropy_rows<C, T>, blocks, block, all, static_cast<const T*>(logits.raw()), wanted,
                 static_cast<C*>(probabilities.raw()), partial, write);
    if (partial)
      cuda::launch(merge_blocks<C>, dim3(1), dim3(threads), static_cast<int>(blocks.x), partial, write);
  });
  return -1;
}

void CudaBackend::cross_entropy_grad(const Array& probabilities, const Array& target, const Array& grad_loss,
                                     const Array& grad_logits) {
  const Rows all{probabilities.dim(0), probabilities.dim(1)};
  const Array factor = grad_loss.to(probabilities.dtype());
  dispatch_floating(grad_logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    cuda::launch(cross_entropy_grad_rows<C, T>, cuda::blocks_for(all.rows * 32, threads), dim3(threads), all,
                 static_cast<const C*>(probabilities.raw()), static_cast<const std::int64_t*>(target.raw()),
                 static_cast<const C*>(factor.raw()), static_cast<T*>(grad_logits.raw()));
  });
}

}  // namespace tandem

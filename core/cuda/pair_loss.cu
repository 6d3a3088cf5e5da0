#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/cuda/block_tree.cuh>
#include <tandem/core/cuda/loops.cuh>
#include <tandem/core/cuda/warp.cuh>

namespace tandem {

namespace {

constexpr int threads = 256;

template <class F, class T>
struct PairValue {
  using C = compute_t<T>;
  F loss;
  TANDEM_HOST_DEVICE T operator()(T x, T t) const {
    return static_cast<T>(loss.template value<ScalarMath<C>>(static_cast<C>(x), static_cast<C>(t)));
  }
};

template <class F, class T>
struct PairGradient {
  using C = compute_t<T>;
  F loss;
  int operand;
  C scale;
  const T* common;  // the gradient of a reduced loss, which all elements share
  cuda::FloatBits bits;
  TANDEM_HOST_DEVICE T operator()(T a, T b, T grad) const {
    const C x = static_cast<C>(a), t = static_cast<C>(b);
    const C slope = operand == 0 ? loss.template derivative_a<ScalarMath<C>>(x, t)
                                 : loss.template derivative_b<ScalarMath<C>>(x, t);
    return static_cast<T>(slope * (static_cast<C>(grad) * scale));
  }
  TANDEM_HOST_DEVICE T operator()(T a, T b) const { return (*this)(a, b, cuda::load_one(bits, common, 0)); }
};

template <class F, class T>
__global__ void sum_pairs(F loss, std::int64_t count, const T* x, const T* t, double scale,
                          cuda::TreeStates<Sum<double>, Sum<double>> states, T* y) {
  using C = compute_t<T>;
  Sum<double> sum;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    sum.add(loss.template value<ScalarMath<C>>(static_cast<C>(x[i]), static_cast<C>(t[i])), i);
  cuda::merge_block(sum);
  cuda::merge_blocks(blockIdx.x, gridDim.x, sum, states,
                     [&](const Sum<double>& whole) { *y = static_cast<T>(static_cast<C>(whole.total * scale)); });
}

}  // namespace

void CudaBackend::pair_loss(const PairLoss& loss, const Array& x, const Array& target, double scale, const Array& y) {
  const std::int64_t count = x.numel();
  const bool is_reduced = y.shape() != x.shape() || x.ndim() == 0;
  dispatch_floating(x.dtype(), "loss", [&](auto type) {
    using T = decltype(type);
    std::visit(
        [&](const auto& f) {
          using F = std::decay_t<decltype(f)>;
          using E = cuda::DenseLoops::element_t<T>;
          if (!is_reduced) return cuda::DenseLoops::transform<E, E>(x, target, y, PairValue<F, E>{f});
          const dim3 blocks = cuda::blocks_for((count + 3) / 4, threads, 8 * cuda::multiprocessors);
          const cuda::TreeMemory<Sum<double>, Sum<double>> memory(blocks.x, 1, x.device());
          cuda::launch(sum_pairs<F, T>, blocks, dim3(threads), f, count, static_cast<const T*>(x.raw()),
                       static_cast<const T*>(target.raw()), scale, memory.states(), static_cast<T*>(y.raw()));
        },
        loss);
  });
}

void CudaBackend::pair_loss_grad(const PairLoss& loss, int operand, const Array& x, const Array& target,
                                 const Array& grad_y, double scale, const Array& grad) {
  const bool is_reduced = grad_y.shape() != x.shape() || x.ndim() == 0;
  dispatch_floating(x.dtype(), "loss", [&](auto type) {
    using T = cuda::DenseLoops::element_t<decltype(type)>;
    std::visit(
        [&](const auto& f) {
          using F = std::decay_t<decltype(f)>;
          const PairGradient<F, T> of{f, operand, static_cast<T>(scale), static_cast<const T*>(grad_y.raw()),
                                      cuda::float_bits(grad_y.dtype())};
          if (is_reduced) cuda::DenseLoops::transform<T, T>(x, target, grad, of);
          else cuda::DenseLoops::transform<T, T>(x, target, grad_y, grad, of);
        },
        loss);
  });
}

}  // namespace tandem

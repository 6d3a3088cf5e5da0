#include <tandem/core/cuda/bias_gradient.h>
#include <tandem/core/formulas/reductions.h>
#include <tandem/core/cuda/channel_sums.cuh>

namespace tandem::cuda {

namespace {

template <class C, int lanes>
struct PixelSums {
  using Channel = PixelSums<C, 1>;
  using Whole = PixelSums<double, 1>;
  Numbers<C, lanes> sum{};

  template <class D>
  __device__ void merge(const PixelSums<D, lanes>& other) {
    for (int j = 0; j < lanes; ++j) sum[j] += other.sum[j];
  }
  __device__ Channel channel(int j) const { return {{sum[j]}}; }
};

template <class T, int lanes>
struct SumsOfRows {
  static constexpr int lanes_of_thread = lanes, at_once = 4;
  const T* grad_y;
  __device__ PixelSums<compute_t<T>, lanes> operator()(const ChannelPlace& at, std::int64_t rows,
                                                       std::int64_t channels) const {
    PixelSums<compute_t<T>, lanes> sums;
    for (std::int64_t row = at.row; row < rows; row += row_batch * at.step) {
      const auto grad = load_rows<lanes>(grad_y, at, row, rows, channels);
      for (int u = 0; u < row_batch; ++u)
        for (int j = 0; j < lanes; ++j) sums.sum[j] += grad(u, j);
    }
    return sums;
  }
};

struct WriteSums {
  ReductionOutput out;
  __device__ void operator()(std::int64_t c, const PixelSums<double, 1>& whole) const { out.write(c, whole.sum[0]); }
};

struct WriteWeightAndBias {
  ReductionOutput weight, bias;
  std::int64_t weights;
  __device__ void operator()(std::int64_t c, const PixelSums<double, 1>& whole) const {
    if (c < weights) weight.write(c, whole.sum[0]);
    else if (bias.data) bias.write(c - weights, whole.sum[0]);
  }
};

// The remaining blocks convert a gradient to f32.
struct Widen {
  std::int64_t numbers = 0;
  FloatBits bits = FloatBits::f32;
  const float* from = nullptr;
  float* to = nullptr;
  __device__ void operator()(unsigned block, unsigned blocks) const {
    const std::int64_t threads = static_cast<std::int64_t>(blockDim.x) * blockDim.y;
    const std::int64_t first = block * threads + threadIdx.y * blockDim.x + threadIdx.x;
    for (std::int64_t i = first; i < numbers; i += blocks * threads) to[i] = load_one(bits, from, i);
  }
};

}  // namespace

void sum_pixels(const Array& grad_y, const Array& sums, const std::optional<Widening>& widening) {
  Widen widen;
  if (widening)
    widen = {widening->to.numel(), float_bits(widening->from.dtype()), static_cast<const float*>(widening->from.raw()),
             static_cast<float*>(widening->to.raw())};
  dispatch_floating(grad_y.dtype(), "conv2d", [&](auto type) {
    using T = decltype(type);
    with_lanes<T>(
        grad_y.dim(1),
        [&](auto lanes) {
          sum_over_rows<PixelSums<compute_t<T>, lanes>>(grad_y,
                                                        SumsOfRows<T, lanes>{static_cast<const T*>(grad_y.raw())},
                                                        WriteSums{ReductionOutput{sums.raw(), sums.dtype()}}, widen);
        },
        grad_y);
  });
}

void sum_parts(const Array& parts, const Array& grad_weight, const std::optional<Array>& grad_bias) {
  const WriteWeightAndBias write{{grad_weight.raw(), grad_weight.dtype()},
                                 {grad_bias ? grad_bias->raw() : nullptr, grad_bias ? grad_bias->dtype() : DType::f32},
                                 grad_weight.numel()};
  with_lanes<float>(
      parts.dim(1),
      [&](auto lanes) {
        sum_over_rows<PixelSums<float, lanes>>(parts.reshape({parts.dim(0), parts.dim(1), 1, 1}),
                                               SumsOfRows<float, lanes>{static_cast<const float*>(parts.raw())}, write);
      },
      parts);
}

}  // namespace tandem::cuda

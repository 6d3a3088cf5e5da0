#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/channels.cuh>

namespace tandem {

namespace {

constexpr std::int64_t most_blocks = 8 * cuda::multiprocessors;

// Each row of a window is summed by itself first, so that sums over large windows stay accurate.
template <class T, int lanes>
__global__ void pool(std::int64_t images, std::int64_t channels, Pooling p, const T* x, T* y) {
  using C = compute_t<T>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= channels) return;
  const std::int64_t outputs = images * p.h.outputs * p.w.outputs;
  for (std::int64_t o = at.row; o < outputs; o += at.step) {
    const std::int64_t oh = o / p.w.outputs % p.h.outputs, ow = o % p.w.outputs;
    const auto down = p.h.taps(oh), along = p.w.taps(ow);
    const T* image = x + o / (p.h.outputs * p.w.outputs) * p.h.size * p.w.size * channels + at.channel;
    cuda::Numbers<C, lanes> total{};
    for (std::int64_t kh = down.first; kh < down.last; ++kh) {
      cuda::Numbers<C, lanes> line{};
      const T* row = image + (down.begin + kh * p.h.dilation) * p.w.size * channels;
      for (std::int64_t kw = along.first; kw < along.last; ++kw) {
        const auto number = cuda::load<lanes>(row + (along.begin + kw * p.w.dilation) * channels);
        for (int j = 0; j < lanes; ++j) line[j] += number[j];
      }
      for (int j = 0; j < lanes; ++j) total[j] += line[j];
    }
    const auto divisor = static_cast<C>(p.divisor_of(oh, ow));
    for (int j = 0; j < lanes; ++j) total[j] /= divisor;
    cuda::store<lanes>(y + o * channels + at.channel, total);
  }
}

template <class T, int lanes>
__global__ void pool_grad(std::int64_t images, std::int64_t channels, Pooling p, const T* grad_y, T* grad_x) {
  using C = compute_t<T>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= channels) return;
  const std::int64_t rows = images * p.h.size * p.w.size;
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    const T* grad = grad_y + row / (p.h.size * p.w.size) * p.h.outputs * p.w.outputs * channels + at.channel;
    const auto down = p.h.covering(row / p.w.size % p.h.size), along = p.w.covering(row % p.w.size);
    cuda::Numbers<C, lanes> sum{};
    for (std::int64_t oh = down.first; oh <= down.last; ++oh)
      for (std::int64_t ow = along.first; ow <= along.last; ++ow) {
        const C share = C(1) / static_cast<C>(p.divisor_of(oh, ow));
        const auto number = cuda::load<lanes>(grad + (oh * p.w.outputs + ow) * channels);
        for (int j = 0; j < lanes; ++j) sum[j] += number[j] * share;
      }
    cuda::store<lanes>(grad_x + row * channels + at.channel, sum);
  }
}

}  // namespace

void CudaBackend::avg_pool2d(const Array& x, const Pooling& pooling, const Array& y) {
  // One average for each channel of an image would keep only few threads busy. reduce() shares the pixels among
  // threads.
  if (pooling.h.adaptive && y.dim(2) * y.dim(3) == 1) return reduce(Reduction::mean, x, y);
  const std::int64_t images = x.dim(0), channels = x.dim(1);
  dispatch_floating(x.dtype(), "avg_pool2d", [&](auto type) {
    using T = decltype(type);
    cuda::with_lanes<T>(
        channels,
        [&](auto lanes) {
          constexpr int L = lanes;
          const cuda::ChannelTiles tiles(images * pooling.h.outputs * pooling.w.outputs, channels, L, sizeof(T), 1,
                                         most_blocks);
          cuda::launch(pool<T, L>, tiles.grid, tiles.block, images, channels, pooling, static_cast<const T*>(x.raw()),
                       static_cast<T*>(y.raw()));
        },
        x, y);
  });
}

void CudaBackend::avg_pool2d_grad(const Array& grad_y, const Pooling& pooling, const Array& grad_x) {
  if (grad_x.numel() == 0) return;
  const std::int64_t images = grad_x.dim(0), channels = grad_x.dim(1);
  dispatch_floating(grad_x.dtype(), "avg_pool2d", [&](auto type) {
    using T = decltype(type);
    cuda::with_lanes<T>(
        channels,
        [&](auto lanes) {
          constexpr int L = lanes;
          const cuda::ChannelTiles tiles(images * pooling.h.size * pooling.w.size, channels, L, sizeof(T), 1,
                                         most_blocks);
          cuda::launch(pool_grad<T, L>, tiles.grid, tiles.block, images, channels, pooling,
                       static_cast<const T*>(grad_y.raw()), static_cast<T*>(grad_x.raw()));
        },
        grad_y, grad_x);
  });
}

}  // namespace tandem

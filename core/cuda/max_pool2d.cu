#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/channels.cuh>

#include <cmath>

namespace tandem {

namespace {

constexpr std::int64_t many = 132 * 8;  // blocks that fill a large GPU

template <class T, int lanes>
__global__ void pool(cuda::PooledSizes size, Window window, const T* x, T* y, std::uint8_t* index) {
  using C = compute_t<T>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= size.channels) return;
  const std::int64_t outputs = size.images * size.out_h * size.out_w;
  for (std::int64_t o = at.row; o < outputs; o += at.step) {
    const std::int64_t h0 = o / size.out_w % size.out_h * window.stride.h - window.padding.h;
    const std::int64_t w0 = o % size.out_w * window.stride.w - window.padding.w;
    const T* image =
        x + o / (size.out_h * size.out_w) * size.height * size.width * size.channels + at.channel;
    cuda::Numbers<C, lanes> best;
    int where[lanes];
    for (int j = 0; j < lanes; ++j) {
      best[j] = -static_cast<C>(INFINITY);
      where[j] = -1;
    }
    for (int kh = 0; kh < window.kernel.h; ++kh) {
      const std::int64_t h = h0 + kh * window.dilation.h;
      if (h < 0 || h >= size.height) continue;
      for (int kw = 0; kw < window.kernel.w; ++kw) {
        const std::int64_t w = w0 + kw * window.dilation.w;
        if (w < 0 || w >= size.width) continue;
        const auto candidate = cuda::load<lanes>(image + (h * size.width + w) * size.channels);
        for (int j = 0; j < lanes; ++j) {
          if (candidate[j] > best[j] || candidate[j] != candidate[j] || where[j] < 0) {
            best[j] = candidate[j];
            where[j] = kh * static_cast<int>(window.kernel.w) + kw;
          }
        }
      }
    }
    cuda::store<lanes>(y + o * size.channels + at.channel, best);
    cuda::Pack<std::uint8_t, lanes> places;
    for (int j = 0; j < lanes; ++j) places.values[j] = static_cast<std::uint8_t>(where[j]);
    *reinterpret_cast<cuda::Pack<std::uint8_t, lanes>*>(index + o * size.channels + at.channel) = places;
  }
}

// The windows that cover place `at` along one dimension: output `first` to `last`.
struct Covering {
  std::int64_t first, last;
  TANDEM_HOST_DEVICE Covering(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                              std::int64_t dilation, std::int64_t outputs) {
    const std::int64_t end = at + padding, begin = end - (kernel - 1) * dilation;
    first = begin <= 0 ? 0 : (begin + stride - 1) / stride;
    last = end / stride < outputs ? end / stride : outputs - 1;
  }
};

// Each element of x asks the windows that cover it, in their order: nobody writes where another one does.
template <class T, int lanes>
__global__ void pool_grad(cuda::PooledSizes size, Window window, const T* grad_y, const std::uint8_t* index,
                          T* grad_x) {
  using C = compute_t<T>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= size.channels) return;
  const std::int64_t rows = size.images * size.height * size.width;
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    const std::int64_t h = row / size.width % size.height, w = row % size.width;
    const std::int64_t image = row / (size.height * size.width) * size.out_h * size.out_w;
    const Covering down(h, window.kernel.h, window.stride.h, window.padding.h, window.dilation.h, size.out_h);
    const Covering along(w, window.kernel.w, window.stride.w, window.padding.w, window.dilation.w,
                         size.out_w);
    cuda::Numbers<C, lanes> sum{};
    for (std::int64_t oh = down.first; oh <= down.last; ++oh) {
      const std::int64_t from_top = h + window.padding.h - oh * window.stride.h;
      if (from_top % window.dilation.h != 0) continue;
      for (std::int64_t ow = along.first; ow <= along.last; ++ow) {
        const std::int64_t from_left = w + window.padding.w - ow * window.stride.w;
        if (from_left % window.dilation.w != 0) continue;
        const auto place =
            static_cast<int>(from_top / window.dilation.h * window.kernel.w + from_left / window.dilation.w);
        const std::int64_t from = (image + oh * size.out_w + ow) * size.channels + at.channel;
        const auto places = *reinterpret_cast<const cuda::Pack<std::uint8_t, lanes>*>(index + from);
        const auto grad = cuda::load<lanes>(grad_y + from);
        for (int j = 0; j < lanes; ++j)
          if (places.values[j] == place) sum[j] += grad[j];
      }
    }
    cuda::store<lanes>(grad_x + row * size.channels + at.channel, sum);
  }
}

}  // namespace

void CudaBackend::max_pool2d(const Array& x, const Window& window, const Array& y, const Array& index) {
  const cuda::PooledSizes size{x.dim(0), x.dim(1), x.dim(2), x.dim(3), y.dim(2), y.dim(3)};
  dispatch_floating(x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    cuda::with_lanes<T>(
        size.channels,
        [&](auto lanes) {
          constexpr int L = lanes;
          const cuda::ChannelTiles tiles(size.images * size.out_h * size.out_w, size.channels, L, sizeof(T),
                                         1, many);
          cuda::launch(pool<T, L>, tiles.grid, tiles.block, size, window, static_cast<const T*>(x.raw()),
                       static_cast<T*>(y.raw()), static_cast<std::uint8_t*>(index.raw()));
        },
        x, y, index);
  });
}

void CudaBackend::max_pool2d_grad(const Array& grad_y, const Array& index, const Window& window,
                                  const Array& grad_x) {
  const cuda::PooledSizes size{grad_x.dim(0), grad_x.dim(1), grad_x.dim(2),
                               grad_x.dim(3), grad_y.dim(2), grad_y.dim(3)};
  if (grad_x.numel() == 0) return;
  dispatch_floating(grad_x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    cuda::with_lanes<T>(
        size.channels,
        [&](auto lanes) {
          constexpr int L = lanes;
          const cuda::ChannelTiles tiles(size.images * size.height * size.width, size.channels, L, sizeof(T),
                                         1, many);
          cuda::launch(pool_grad<T, L>, tiles.grid, tiles.block, size, window,
                       static_cast<const T*>(grad_y.raw()), static_cast<const std::uint8_t*>(index.raw()),
                       static_cast<T*>(grad_x.raw()));
        },
        grad_y, index, grad_x);
  });
}

}  // namespace tandem

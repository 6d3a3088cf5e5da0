#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/channels.cuh>

#include <cmath>

namespace tandem {

namespace {

constexpr std::int64_t most_blocks = 8 * cuda::multiprocessors;

// A window that contains only padding gives -infinity and the position -1, which no element of x has.
template <class T, class I, int lanes>
__global__ void pool(std::int64_t images, std::int64_t channels, Pooling p, const T* x, T* y, I* index) {
  using C = compute_t<T>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= channels) return;
  const std::int64_t outputs = images * p.h.outputs * p.w.outputs;
  for (std::int64_t o = at.row; o < outputs; o += at.step) {
    const auto down = p.h.taps(o / p.w.outputs % p.h.outputs), along = p.w.taps(o % p.w.outputs);
    const T* image = x + o / (p.h.outputs * p.w.outputs) * p.h.size * p.w.size * channels + at.channel;
    cuda::Numbers<C, lanes> best;
    I where[lanes];
    bool found = false;
    for (int j = 0; j < lanes; ++j) {
      best[j] = -static_cast<C>(INFINITY);
      where[j] = static_cast<I>(-1);
    }
    for (std::int64_t kh = down.first; kh < down.last; ++kh) {
      const std::int64_t h = down.begin + kh * p.h.dilation;
      for (std::int64_t kw = along.first; kw < along.last; ++kw) {
        const std::int64_t w = along.begin + kw * p.w.dilation;
        const auto candidate = cuda::load<lanes>(image + (h * p.w.size + w) * channels);
        for (int j = 0; j < lanes; ++j) {
          if (candidate[j] > best[j] || candidate[j] != candidate[j] || !found) {
            best[j] = candidate[j];
            where[j] = static_cast<I>(kh * p.w.kernel + kw);
          }
        }
        found = true;
      }
    }
    cuda::store<lanes>(y + o * channels + at.channel, best);
    cuda::Pack<I, lanes> places;
    for (int j = 0; j < lanes; ++j) places.values[j] = where[j];
    *reinterpret_cast<cuda::Pack<I, lanes>*>(index + o * channels + at.channel) = places;
  }
}

// Each element of x adds up the gradients of the windows that cover it, in the order of the windows. So no two threads
// write to the same element.
template <class T, class I, int lanes>
__global__ void pool_grad(std::int64_t images, std::int64_t channels, Pooling p, const T* grad_y, const I* index,
                          T* grad_x) {
  using C = compute_t<T>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= channels) return;
  const std::int64_t rows = images * p.h.size * p.w.size;
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    const std::int64_t h = row / p.w.size % p.h.size, w = row % p.w.size;
    const std::int64_t image = row / (p.h.size * p.w.size) * p.h.outputs * p.w.outputs;
    const auto down = p.h.covering(h), along = p.w.covering(w);
    cuda::Numbers<C, lanes> sum{};
    for (std::int64_t oh = down.first; oh <= down.last; ++oh) {
      const std::int64_t kh = p.h.place(h, oh);
      if (kh < 0) continue;
      for (std::int64_t ow = along.first; ow <= along.last; ++ow) {
        const std::int64_t kw = p.w.place(w, ow);
        if (kw < 0) continue;
        const auto place = static_cast<I>(kh * p.w.kernel + kw);
        const std::int64_t from = (image + oh * p.w.outputs + ow) * channels + at.channel;
        const auto places = *reinterpret_cast<const cuda::Pack<I, lanes>*>(index + from);
        const auto grad = cuda::load<lanes>(grad_y + from);
        for (int j = 0; j < lanes; ++j)
          if (places.values[j] == place) sum[j] += grad[j];
      }
    }
    cuda::store<lanes>(grad_x + row * channels + at.channel, sum);
  }
}

// Calls f with the type of the index.
template <class F>
void with_index(const Array& index, F f) {
  if (index.dtype() == DType::u8) f(std::uint8_t{});
  else f(std::int32_t{});
}

}  // namespace

void CudaBackend::max_pool2d(const Array& x, const Pooling& pooling, const Array& y, const Array& index) {
  const std::int64_t images = x.dim(0), channels = x.dim(1);
  dispatch_floating(x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    with_index(index, [&](auto place) {
      using I = decltype(place);
      cuda::with_lanes<T>(
          channels,
          [&](auto lanes) {
            constexpr int L = lanes;
            const cuda::ChannelTiles tiles(images * pooling.h.outputs * pooling.w.outputs, channels, L, sizeof(T), 1,
                                           most_blocks);
            cuda::launch(pool<T, I, L>, tiles.grid, tiles.block, images, channels, pooling,
                         static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()), static_cast<I*>(index.raw()));
          },
          x, y, index);
    });
  });
}

void CudaBackend::max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling,
                                  const Array& grad_x) {
  if (grad_x.numel() == 0) return;
  const std::int64_t images = grad_x.dim(0), channels = grad_x.dim(1);
  dispatch_floating(grad_x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    with_index(index, [&](auto place) {
      using I = decltype(place);
      cuda::with_lanes<T>(
          channels,
          [&](auto lanes) {
            constexpr int L = lanes;
            const cuda::ChannelTiles tiles(images * pooling.h.size * pooling.w.size, channels, L, sizeof(T), 1,
                                           most_blocks);
            cuda::launch(pool_grad<T, I, L>, tiles.grid, tiles.block, images, channels, pooling,
                         static_cast<const T*>(grad_y.raw()), static_cast<const I*>(index.raw()),
                         static_cast<T*>(grad_x.raw()));
          },
          grad_y, index, grad_x);
    });
  });
}

}  // namespace tandem

#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/channels.cuh>

namespace tandem {

namespace {

constexpr std::int64_t most_blocks = 8 * cuda::multiprocessors;

template <class R>
struct Axes {
  std::int64_t images, channels;
  ResizeAxis<R> h, w;
  Axes(const Array& x, const Array& y, const Resize& how)
      : images(x.dim(0)), channels(x.dim(1)), h(how.h<R>(x.dim(2), y.dim(2))), w(how.w<R>(x.dim(3), y.dim(3))) {}
};

template <class R, class T, int lanes>
__global__ void nearest(Axes<R> a, const T* x, T* y) {
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= a.channels) return;
  const std::int64_t outputs = a.images * a.h.out * a.w.out;
  for (std::int64_t o = at.row; o < outputs; o += at.step) {
    const std::int64_t row = o / (a.h.out * a.w.out) * a.h.in + a.h.taps(o / a.w.out % a.h.out).i0;
    const std::int64_t from = row * a.w.in + a.w.taps(o % a.w.out).i0;
    using Pack = cuda::Pack<T, lanes>;
    *reinterpret_cast<Pack*>(y + o * a.channels + at.channel) =
        *reinterpret_cast<const Pack*>(x + from * a.channels + at.channel);
  }
}

template <class T, int lanes>
__global__ void bilinear(Axes<compute_t<T>> a, const T* x, T* y) {
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= a.channels) return;
  const std::int64_t outputs = a.images * a.h.out * a.w.out;
  for (std::int64_t o = at.row; o < outputs; o += at.step) {
    const auto v = a.h.taps(o / a.w.out % a.h.out), t = a.w.taps(o % a.w.out);
    const T* image = x + o / (a.h.out * a.w.out) * a.h.in * a.w.in * a.channels + at.channel;
    const T *upper = image + v.i0 * a.w.in * a.channels, *lower = image + v.i1 * a.w.in * a.channels;
    const auto upper_left = cuda::load<lanes>(upper + t.i0 * a.channels);
    const auto upper_right = cuda::load<lanes>(upper + t.i1 * a.channels);
    const auto lower_left = cuda::load<lanes>(lower + t.i0 * a.channels);
    const auto lower_right = cuda::load<lanes>(lower + t.i1 * a.channels);
    cuda::Numbers<compute_t<T>, lanes> result;
    for (int j = 0; j < lanes; ++j)
      result[j] = (upper_left[j] * t.weight0 + upper_right[j] * t.weight1) * v.weight0 +
                  (lower_left[j] * t.weight0 + lower_right[j] * t.weight1) * v.weight1;
    cuda::store<lanes>(y + o * a.channels + at.channel, result);
  }
}

// Each element of x adds up the gradients of the outputs to which it contributed, in the order of the outputs. So no
// two threads write to the same element.
template <class T, int lanes>
__global__ void resize_gradient(Axes<compute_t<T>> a, const T* grad_y, T* grad_x) {
  using C = compute_t<T>;
  using Axis = ResizeAxis<C>;
  const cuda::ChannelPlace at(lanes);
  if (at.channel >= a.channels) return;
  const std::int64_t rows = a.images * a.h.in * a.w.in;
  for (std::int64_t row = at.row; row < rows; row += at.step) {
    const std::int64_t h = row / a.w.in % a.h.in, w = row % a.w.in;
    const T* image = grad_y + row / (a.h.in * a.w.in) * a.h.out * a.w.out * a.channels + at.channel;
    const std::int64_t first_w = a.w.first_output(w);
    cuda::Numbers<C, lanes> sum{};
    for (std::int64_t oh = a.h.first_output(h); oh < a.h.out; ++oh) {
      const auto v = a.h.taps(oh);
      if (v.i0 > h) break;
      cuda::Numbers<C, lanes> line{};
      for (std::int64_t ow = first_w; ow < a.w.out; ++ow) {
        const auto t = a.w.taps(ow);
        if (t.i0 > w) break;
        const auto grad = cuda::load<lanes>(image + (oh * a.w.out + ow) * a.channels);
        for (int j = 0; j < lanes; ++j) line[j] += grad[j] * Axis::weight_of(w, t);
      }
      for (int j = 0; j < lanes; ++j) sum[j] += line[j] * Axis::weight_of(h, v);
    }
    cuda::store<lanes>(grad_x + row * a.channels + at.channel, sum);
  }
}

// Like with_lanes, for kernels that compute a position for each pack. If 16 bytes are not allowed, a pack of a few
// numbers is better than one of a single number: logits of 21 classes are 3 packs of 7, and colours are one pack of 3.
template <class T, class F>
void with_packs(std::int64_t channels, F f, const Array& x, const Array& y) {
  constexpr int lanes = static_cast<int>(16 / sizeof(T));
  if (channels % lanes != 0 && channels % 7 == 0) return f(std::integral_constant<int, 7>{});
  if (channels % lanes != 0 && channels % 3 == 0) return f(std::integral_constant<int, 3>{});
  cuda::with_lanes<T>(channels, f, x, y);
}

template <class R, class T>
void move_nearest(const Array& x, const Resize& how, const Array& y) {
  cuda::with_lanes<T>(
      x.dim(1),
      [&](auto lanes) {
        constexpr int L = lanes;
        const cuda::ChannelTiles tiles(y.numel() / y.dim(1), y.dim(1), L, sizeof(T), 1, most_blocks);
        cuda::launch(nearest<R, T, L>, tiles.grid, tiles.block, Axes<R>(x, y, how), static_cast<const T*>(x.raw()),
                     static_cast<T*>(y.raw()));
      },
      x, y);
}

}  // namespace

void CudaBackend::resize(const Array& x, const Resize& how, const Array& y) {
  if (how.mode == Interpolation::nearest)
    return dispatch_bits(x.dtype(), [&](auto bits) {
      move_nearest<std::conditional_t<sizeof bits == 8, double, float>, decltype(bits)>(x, how, y);
    });
  dispatch_floating(x.dtype(), "interpolate", [&](auto type) {
    using T = decltype(type);
    with_packs<T>(
        x.dim(1),
        [&](auto lanes) {
          constexpr int L = lanes;
          const cuda::ChannelTiles tiles(y.numel() / y.dim(1), y.dim(1), L, sizeof(T), 1, most_blocks);
          cuda::launch(bilinear<T, L>, tiles.grid, tiles.block, Axes<compute_t<T>>(x, y, how),
                       static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()));
        },
        x, y);
  });
}

void CudaBackend::resize_grad(const Array& grad_y, const Resize& how, const Array& grad_x) {
  // A single pixel contributes to all others, and a thread should not add up all of them.
  if (grad_x.dim(2) == 1 && grad_x.dim(3) == 1) return reduce(Reduction::sum, grad_y, grad_x);
  dispatch_floating(grad_x.dtype(), "interpolate", [&](auto type) {
    using T = decltype(type);
    with_packs<T>(
        grad_x.dim(1),
        [&](auto lanes) {
          constexpr int L = lanes;
          const cuda::ChannelTiles tiles(grad_x.numel() / grad_x.dim(1), grad_x.dim(1), L, sizeof(T), 1, most_blocks);
          cuda::launch(resize_gradient<T, L>, tiles.grid, tiles.block, Axes<compute_t<T>>(grad_x, grad_y, how),
                       static_cast<const T*>(grad_y.raw()), static_cast<T*>(grad_x.raw()));
        },
        grad_y, grad_x);
  });
}

}  // namespace tandem

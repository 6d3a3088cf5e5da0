#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>

#include <algorithm>
#include <vector>

namespace tandem {

namespace {

constexpr auto overlap = cpu::ChannelRest::overlap;

template <class R>
std::vector<typename ResizeAxis<R>::Taps> all_taps(const ResizeAxis<R>& axis) {
  std::vector<typename ResizeAxis<R>::Taps> taps(static_cast<std::size_t>(axis.out));
  for (std::int64_t o = 0; o < axis.out; ++o) taps[static_cast<std::size_t>(o)] = axis.taps(o);
  return taps;
}

// Calls f(row, number, image) for each row of the result: the address of the row, its number within the image, and the
// image of x from which it is computed.
template <class T, class F>
void for_each_row(const Array& x, const Array& y, F f) {
  const std::int64_t channels = x.dim(1), image = x.dim(2) * x.dim(3) * channels, rows = y.dim(2);
  cpu::parallel_for(y.dim(0) * rows, std::max(x.numel(), y.numel()), [&](std::int64_t row) {
    f(static_cast<T*>(y.raw()) + row * y.dim(3) * channels, row % rows,
      static_cast<const T*>(x.raw()) + row / rows * image);
  });
}

template <class R, class T>
void nearest(const Array& x, const Resize& how, const Array& y) {
  const auto down = all_taps(how.h<R>(x.dim(2), y.dim(2))), along = all_taps(how.w<R>(x.dim(3), y.dim(3)));
  const std::int64_t channels = x.dim(1), width = x.dim(3);
  for_each_row<T>(x, y, [&](T* to, std::int64_t oh, const T* image) {
    const T* from = image + down[static_cast<std::size_t>(oh)].i0 * width * channels;
    for (const auto& t : along) {
      cpu::for_each_channel_block<T, overlap>(channels, [&](auto lanes, std::int64_t c) {
        const auto block = cpu::load_raw<T, lanes>(from + t.i0 * channels + c);
        std::memcpy(to + c, &block, sizeof block);
      });
      to += channels;
    }
  });
}

template <class T>
void bilinear(const Array& x, const Resize& how, const Array& y) {
  using C = compute_t<T>;
  const auto down = all_taps(how.h<C>(x.dim(2), y.dim(2))), along = all_taps(how.w<C>(x.dim(3), y.dim(3)));
  const std::int64_t channels = x.dim(1), width = x.dim(3);
  for_each_row<T>(x, y, [&](T* to, std::int64_t oh, const T* image) {
    const auto& v = down[static_cast<std::size_t>(oh)];
    const T *upper = image + v.i0 * width * channels, *lower = image + v.i1 * width * channels;
    for (const auto& t : along) {
      const std::int64_t left = t.i0 * channels, right = t.i1 * channels;
      cpu::for_each_channel_block<C, overlap>(channels, [&](auto lanes, std::int64_t c) {
        constexpr int L = lanes;
        const auto above = cpu::load<L>(upper + left + c) * t.weight0 + cpu::load<L>(upper + right + c) * t.weight1;
        const auto below = cpu::load<L>(lower + left + c) * t.weight0 + cpu::load<L>(lower + right + c) * t.weight1;
        cpu::store<L>(to + c, above * v.weight0 + below * v.weight1);
      });
      to += channels;
    }
  });
}

}  // namespace

void CpuBackend::resize(const Array& x, const Resize& how, const Array& y) {
  if (how.mode == Interpolation::bilinear)
    return dispatch_floating(x.dtype(), "interpolate", [&](auto type) { bilinear<decltype(type)>(x, how, y); });
  dispatch_bits(x.dtype(), [&](auto bits) {
    nearest<std::conditional_t<sizeof bits == 8, double, float>, decltype(bits)>(x, how, y);
  });
}

// Each row of grad_x first adds up the rows of grad_y to which it contributed. Then each of its pixels adds up the
// elements of that sum to which it contributed.
void CpuBackend::resize_grad(const Array& grad_y, const Resize& how, const Array& grad_x) {
  dispatch_floating(grad_x.dtype(), "interpolate", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    using Axis = ResizeAxis<C>;
    const Axis vertical = how.h<C>(grad_x.dim(2), grad_y.dim(2)), horizontal = how.w<C>(grad_x.dim(3), grad_y.dim(3));
    const auto down = all_taps(vertical), along = all_taps(horizontal);
    const std::int64_t channels = grad_x.dim(1), line = grad_y.dim(3) * channels;
    for_each_row<T>(grad_y, grad_x, [&](T* to, std::int64_t h, const T* image) {
      thread_local std::vector<C> sums;
      sums.assign(static_cast<std::size_t>(line), C(0));
      C* const sum = sums.data();
      for (std::int64_t oh = vertical.first_output(h); oh < vertical.out; ++oh) {
        const auto& t = down[static_cast<std::size_t>(oh)];
        if (t.i0 > h) break;
        const C weight = Axis::weight_of(h, t);
        const T* from = image + oh * line;
        for (std::int64_t i = 0; i < line; ++i) sum[i] += weight * static_cast<C>(from[i]);
      }
      std::int64_t first = 0;
      for (std::int64_t w = 0; w < horizontal.in; ++w) {
        while (first < horizontal.out && along[static_cast<std::size_t>(first)].i1 < w) ++first;
        cpu::for_each_channel_block<C, overlap>(channels, [&](auto lanes, std::int64_t c) {
          constexpr int L = lanes;
          cpu::vec<C, L> total{};
          for (std::int64_t ow = first; ow < horizontal.out; ++ow) {
            const auto& t = along[static_cast<std::size_t>(ow)];
            if (t.i0 > w) break;
            total += cpu::load<L>(sum + ow * channels + c) * Axis::weight_of(w, t);
          }
          cpu::store<L>(to + w * channels + c, total);
        });
      }
    });
  });
}

}  // namespace tandem

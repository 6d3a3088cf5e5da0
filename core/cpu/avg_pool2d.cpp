#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>

#include <algorithm>
#include <vector>

namespace tandem {

namespace {

constexpr auto overlap = cpu::ChannelRest::overlap;

// The average of a window for `blocks` times L channels. Each row is summed by itself first, so that sums over large
// windows stay accurate.
template <int L, int blocks, class T>
void average(const T* image, const Pooling& p, std::int64_t channels, PoolAxis::Taps down, PoolAxis::Taps along,
             compute_t<T> divisor, T* to) {
  using V = cpu::vec<compute_t<T>, L>;
  V total[blocks]{};
  for (std::int64_t kh = down.first; kh < down.last; ++kh) {
    V line[blocks]{};
    const T* row = image + (down.begin + kh * p.h.dilation) * p.w.size * channels;
    for (std::int64_t kw = along.first; kw < along.last; ++kw)
      for (int b = 0; b < blocks; ++b)
        line[b] += cpu::load<L>(row + (along.begin + kw * p.w.dilation) * channels + b * L);
    for (int b = 0; b < blocks; ++b) total[b] += line[b];
  }
  for (int b = 0; b < blocks; ++b) cpu::store<L>(to + b * L, total[b] / divisor);
}

// The same for all channels of a large window, pixel by pixel in the order of memory.
template <class T>
void average_of_many(const T* image, const Pooling& p, std::int64_t channels, PoolAxis::Taps down, PoolAxis::Taps along,
                     compute_t<T> divisor, T* to) {
  using C = compute_t<T>;
  thread_local std::vector<C> sums;
  sums.assign(static_cast<std::size_t>(2 * channels), C(0));
  C *const total = sums.data(), *const line = total + channels;
  for (std::int64_t kh = down.first; kh < down.last; ++kh) {
    const T* row = image + (down.begin + kh * p.h.dilation) * p.w.size * channels;
    const auto pixel = [&](std::int64_t kw) { return row + (along.begin + kw * p.w.dilation) * channels; };
    std::fill_n(line, channels, C(0));
    std::int64_t kw = along.first;
    for (; kw + 4 <= along.last; kw += 4) {
      const T *a = pixel(kw), *b = pixel(kw + 1), *c = pixel(kw + 2), *d = pixel(kw + 3);
      for (std::int64_t i = 0; i < channels; ++i)
        line[i] += (static_cast<C>(a[i]) + static_cast<C>(b[i])) + (static_cast<C>(c[i]) + static_cast<C>(d[i]));
    }
    for (; kw < along.last; ++kw) {
      const T* a = pixel(kw);
      for (std::int64_t i = 0; i < channels; ++i) line[i] += static_cast<C>(a[i]);
    }
    for (std::int64_t i = 0; i < channels; ++i) total[i] += line[i];
  }
  for (std::int64_t i = 0; i < channels; ++i) to[i] = static_cast<T>(total[i] / divisor);
}

}  // namespace

void CpuBackend::avg_pool2d(const Array& x, const Pooling& p, const Array& y) {
  const std::int64_t channels = x.dim(1);
  dispatch_floating(x.dtype(), "avg_pool2d", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    constexpr std::int64_t wide = 4 * 64 / sizeof(C);
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    cpu::parallel_for(x.dim(0) * p.h.outputs, x.numel(), [&](std::int64_t row) {
      const T* image = in + row / p.h.outputs * p.h.size * p.w.size * channels;
      const std::int64_t oh = row % p.h.outputs;
      const auto down = p.h.taps(oh);
      for (std::int64_t ow = 0; ow < p.w.outputs; ++ow) {
        const auto along = p.w.taps(ow);
        const auto divisor = static_cast<C>(p.divisor_of(oh, ow));
        T* to = out + (row * p.w.outputs + ow) * channels;
        if (channels > wide && down.count() * along.count() >= 64) {
          average_of_many(image, p, channels, down, along, divisor, to);
          continue;
        }
        std::int64_t done = 0;
        for (; done + wide <= channels; done += wide)
          average<wide / 4, 4>(image + done, p, channels, down, along, divisor, to + done);
        if (done < channels)
          cpu::for_each_channel_block<C, overlap>(channels - done, [&](auto lanes, std::int64_t c) {
            average<lanes, 1>(image + done + c, p, channels, down, along, divisor, to + done + c);
          });
      }
    });
  });
}

void CpuBackend::avg_pool2d_grad(const Array& grad_y, const Pooling& p, const Array& grad_x) {
  const std::int64_t channels = grad_x.dim(1);
  dispatch_floating(grad_x.dtype(), "avg_pool2d", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(grad_y.raw());
    T* out = static_cast<T*>(grad_x.raw());
    std::vector<C> share(static_cast<std::size_t>(p.h.outputs * p.w.outputs));
    for (std::int64_t o = 0; o < p.h.outputs * p.w.outputs; ++o)
      share[static_cast<std::size_t>(o)] = C(1) / static_cast<C>(p.divisor_of(o / p.w.outputs, o % p.w.outputs));
    cpu::parallel_for(grad_x.dim(0) * p.h.size, grad_x.numel(), [&](std::int64_t row) {
      const T* grad = in + row / p.h.size * p.h.outputs * p.w.outputs * channels;
      const std::int64_t h = row % p.h.size;
      const auto down = p.h.covering(h);
      for (std::int64_t w = 0; w < p.w.size; ++w) {
        const auto along = p.w.covering(w);
        cpu::for_each_channel_block<C, overlap>(channels, [&](auto lanes, std::int64_t c) {
          constexpr int L = lanes;
          cpu::vec<C, L> sum{};
          for (std::int64_t oh = down.first; oh <= down.last; ++oh)
            for (std::int64_t ow = along.first; ow <= along.last; ++ow) {
              const std::int64_t o = oh * p.w.outputs + ow;
              sum += cpu::load<L>(grad + o * channels + c) * share[static_cast<std::size_t>(o)];
            }
          cpu::store<L>(out + (row * p.w.size + w) * channels + c, sum);
        });
      }
    });
  });
}

}  // namespace tandem

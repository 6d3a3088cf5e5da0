#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>

#include <limits>

namespace tandem {

namespace {

constexpr auto overlap = cpu::ChannelRest::overlap;

// Positions in a window. They are as wide as the elements of a mask of the values.
template <int L, class M, class I>
cpu::vec<M, L> load_places(const I* from) {
  if constexpr (sizeof(I) == 1) return cpu::load_bytes<L, M>(from);
  else return __builtin_convertvector(cpu::load_raw<I, L>(from), cpu::vec<M, L>);
}
template <int L, class V, class I>
void store_places(I* to, V places) {
  if constexpr (sizeof(I) == 1) return cpu::store_bytes<L>(to, places);
  const auto narrow = __builtin_convertvector(places, cpu::vec<I, L>);
  std::memcpy(to, &narrow, sizeof narrow);
}

template <class T, class I>
void pool(const Array& x, const Pooling& p, const T* in, T* out, I* place) {
  using C = compute_t<T>;
  const std::int64_t channels = x.dim(1);
  cpu::parallel_for(x.dim(0) * p.h.outputs, x.numel(), [&](std::int64_t row) {
    const T* image = in + row / p.h.outputs * p.h.size * p.w.size * channels;
    const auto down = p.h.taps(row % p.h.outputs);
    for (std::int64_t ow = 0; ow < p.w.outputs; ++ow) {
      const auto along = p.w.taps(ow);
      const std::int64_t to = (row * p.w.outputs + ow) * channels;
      cpu::for_each_channel_block<C, overlap>(channels, [&](auto lanes, std::int64_t c) {
        constexpr int L = lanes;
        using V = cpu::vec<C, L>;
        using M = cpu::vec<cpu::mask_t<C>, L>;
        V best = V{} - std::numeric_limits<C>::infinity();
        M where = M{} - 1;
        for (std::int64_t kh = down.first; kh < down.last; ++kh) {
          const std::int64_t h = down.begin + kh * p.h.dilation;
          for (std::int64_t kw = along.first; kw < along.last; ++kw) {
            const std::int64_t w = along.begin + kw * p.w.dilation;
            const V candidate = cpu::load<L>(image + (h * p.w.size + w) * channels + c);
            const M better = candidate > best || candidate != candidate || where < 0;
            best = better ? candidate : best;
            where = better ? M{} + static_cast<cpu::mask_t<C>>(kh * p.w.kernel + kw) : where;
          }
        }
        cpu::store<L>(out + to + c, best);
        store_places<L>(place + to + c, where);
      });
    }
  });
}

// Each element of x adds up the gradients of the windows that cover it, in the order of the windows. So no two threads
// write to the same element.
template <class T, class I>
void pool_grad(const Array& grad_x, const Pooling& p, const T* grad_y, const I* index, T* to) {
  using C = compute_t<T>;
  const std::int64_t channels = grad_x.dim(1);
  cpu::parallel_for(grad_x.dim(0) * p.h.size, grad_x.numel(), [&](std::int64_t row) {
    const std::int64_t h = row % p.h.size, image = row / p.h.size * p.h.outputs * p.w.outputs;
    const auto down = p.h.covering(h);
    for (std::int64_t w = 0; w < p.w.size; ++w) {
      const auto along = p.w.covering(w);
      cpu::for_each_channel_block<C, overlap>(channels, [&](auto lanes, std::int64_t c) {
        constexpr int L = lanes;
        using V = cpu::vec<C, L>;
        using M = cpu::vec<cpu::mask_t<C>, L>;
        V sum{};
        for (std::int64_t oh = down.first; oh <= down.last; ++oh) {
          const std::int64_t kh = p.h.place(h, oh);
          if (kh < 0) continue;
          for (std::int64_t ow = along.first; ow <= along.last; ++ow) {
            const std::int64_t kw = p.w.place(w, ow);
            if (kw < 0) continue;
            const std::int64_t from = (image + oh * p.w.outputs + ow) * channels + c;
            const M chosen =
                load_places<L, cpu::mask_t<C>>(index + from) == static_cast<cpu::mask_t<C>>(kh * p.w.kernel + kw);
            sum += chosen ? cpu::load<L>(grad_y + from) : V{};
          }
        }
        cpu::store<L>(to + (row * p.w.size + w) * channels + c, sum);
      });
    }
  });
}

}  // namespace

void CpuBackend::max_pool2d(const Array& x, const Pooling& pooling, const Array& y, const Array& index) {
  dispatch_floating(x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    if (index.dtype() == DType::u8) pool(x, pooling, in, out, index.data<std::uint8_t>());
    else pool(x, pooling, in, out, index.data<std::int32_t>());
  });
}

void CpuBackend::max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling, const Array& grad_x) {
  dispatch_floating(grad_x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    const T* grad = static_cast<const T*>(grad_y.raw());
    T* to = static_cast<T*>(grad_x.raw());
    if (index.dtype() == DType::u8) pool_grad(grad_x, pooling, grad, index.data<std::uint8_t>(), to);
    else pool_grad(grad_x, pooling, grad, index.data<std::int32_t>(), to);
  });
}

}  // namespace tandem

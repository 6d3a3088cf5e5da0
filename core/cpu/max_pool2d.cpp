#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>

#include <cstring>
#include <limits>

namespace tandem {

void CpuBackend::max_pool2d(const Array& x, const Window& window, const Array& y, const Array& index) {
  const std::int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3), out_h = y.dim(2),
                     out_w = y.dim(3);
  dispatch_floating(x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    std::uint8_t* place = index.data<std::uint8_t>();
    const std::int64_t outputs = x.dim(0) * out_h * out_w;
    cpu::parallel_for(outputs, x.numel(), [&](std::int64_t o) {
      const std::int64_t h0 = o / out_w % out_h * window.stride.h - window.padding.h;
      const std::int64_t w0 = o % out_w * window.stride.w - window.padding.w;
      const T* image = in + o / (out_h * out_w) * height * width * channels;
      cpu::for_each_channel_block<C>(channels, [&](auto lanes, std::int64_t c) {
        constexpr int L = lanes;
        using V = cpu::vec<C, L>;
        using M = cpu::vec<cpu::mask_t<C>, L>;
        V best = V{} - std::numeric_limits<C>::infinity();
        M where = M{} - 1;
        for (std::int64_t i = 0; i < window.kernel.h * window.kernel.w; ++i) {
          const std::int64_t h = h0 + i / window.kernel.w * window.dilation.h,
                             w = w0 + i % window.kernel.w * window.dilation.w;
          if (h < 0 || h >= height || w < 0 || w >= width) continue;
          const V candidate = cpu::load<L>(image + (h * width + w) * channels + c);
          const M better = candidate > best || candidate != candidate || where < 0;
          best = better ? candidate : best;
          where = better ? M{} + static_cast<cpu::mask_t<C>>(i) : where;
        }
        cpu::store<L>(out + o * channels + c, best);
        cpu::store_bytes<L>(place + o * channels + c, where);
      });
    });
  });
}

void CpuBackend::max_pool2d_grad(const Array& grad_y, const Array& index, const Window& window,
                                 const Array& grad_x) {
  const std::int64_t channels = grad_x.dim(1), height = grad_x.dim(2), width = grad_x.dim(3);
  const std::int64_t out_h = grad_y.dim(2), out_w = grad_y.dim(3), images = grad_x.dim(0);
  std::memset(grad_x.raw(), 0, grad_x.bytes());
  dispatch_floating(grad_x.dtype(), "max_pool2d", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* grad = static_cast<const T*>(grad_y.raw());
    const std::uint8_t* place = index.data<std::uint8_t>();
    // Windows may overlap, so one thread takes a whole image.
    cpu::parallel_for(images, grad_x.numel(), [&](std::int64_t n) {
      T* image = static_cast<T*>(grad_x.raw()) + n * height * width * channels;
      for (std::int64_t o = 0; o < out_h * out_w; ++o) {
        const std::int64_t h0 = o / out_w * window.stride.h - window.padding.h;
        const std::int64_t w0 = o % out_w * window.stride.w - window.padding.w;
        const std::int64_t from = (n * out_h * out_w + o) * channels;
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t i = place[from + c];
          const std::int64_t h = h0 + i / window.kernel.w * window.dilation.h,
                             w = w0 + i % window.kernel.w * window.dilation.w;
          if (h < 0 || h >= height || w < 0 || w >= width) continue;  // the window saw nothing but padding
          T& target = image[(h * width + w) * channels + c];
          target = static_cast<T>(static_cast<C>(target) + static_cast<C>(grad[from + c]));
        }
      }
    });
  });
}

}  // namespace tandem

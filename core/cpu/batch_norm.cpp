// Batch normalisation, fused with ReLU and 2 x 2 max pooling. core/formulas/batch_norm.h begins with the formulas of
// all phases, forward and backward. These kernels are memory-bound: their speed depends on how often they read and
// write an activation. Each phase is therefore one pass, and nothing is stored that can be recomputed.
//
// Images are (N, C, H, W), channels last. A row is a pixel: there are N * H * W rows, and the C channels of a row are
// adjacent in memory. Sums run over chunks of rows of a fixed size, and the chunks are combined in order, in double.
// The result therefore does not depend on the number of threads.
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/formulas/batch_norm.h>

#include <algorithm>
#include <vector>

namespace tandem {

namespace {

using cpu::load;
using cpu::store;
using cpu::vec;

// Returns the number of rows in a chunk. A chunk of 4096 numbers, 16 KiB in f32, fills half of a first-level cache, so
// reading it a second time is almost free.
std::int64_t chunk_rows(std::int64_t channels) { return std::max<std::int64_t>(16, 4096 / channels); }

// The coefficients of each channel, in the type used for computation: y = x * scale + shift, and xhat = (x - mean) *
// invstd.
template <class C>
struct Coefficients {
  std::vector<C> scale, shift;
  const C* mean;
  const C* invstd;
  explicit Coefficients(const BatchNormAffine& affine)
      : scale(affine.mean.numel()), shift(scale.size()), mean(affine.mean.data<C>()), invstd(affine.invstd.data<C>()) {
    const C* weight = affine.weight.data<C>();
    const C* bias = affine.bias.data<C>();
    for (std::size_t c = 0; c < scale.size(); ++c) {
      scale[c] = weight[c] * invstd[c];
      shift[c] = bias[c] - mean[c] * scale[c];
    }
  }
};

// Computes two sums per channel over all rows, chunk by chunk. part(first_row, rows, c, lanes, sums) fills `sums` for L
// channels starting at c, and `combine` combines chunks.
template <class C, class Part, class Combine>
void sum_over_rows(std::int64_t rows, std::int64_t channels, Part part, Combine combine) {
  const std::int64_t chunk = chunk_rows(channels), chunks = (rows + chunk - 1) / chunk;
  Array partial = Array::empty({chunks, 2, channels}, dtype_of<C>());
  C* sums = partial.data<C>();
  cpu::parallel_for(chunks, rows * channels, [&](std::int64_t k) {
    const std::int64_t first = k * chunk, n = std::min(chunk, rows - first);
    C* out = sums + k * 2 * channels;
    cpu::for_each_channel_block<C>(channels, [&](auto lanes, std::int64_t c) {
      constexpr int L = lanes;
      const auto [a, b] = part(lanes, first, n, c);
      store<L>(out + c, a);
      store<L>(out + channels + c, b);
    });
  });
  for (std::int64_t k = 0; k < chunks; ++k)
    combine(std::min(chunk, rows - k * chunk), sums + k * 2 * channels, sums + (k * 2 + 1) * channels);
}

// The value in `index` if ReLU zeroed the maximum: no element of that window gets a gradient.
constexpr std::uint8_t no_place = 255;

template <class V>
struct Pair {
  V a, b;
};

}  // namespace

void CpuBackend::batch_norm_stats(const Array& x, const Array& mean_out, const Array& m2_out, const Array& count_out,
                                  const BatchNormUpdate* update) {
  const std::int64_t channels = x.dim(1), rows = x.dim(0) * x.dim(2) * x.dim(3);
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* data = static_cast<const T*>(x.raw());
    std::vector<double> mean(channels, 0.0), m2(channels, 0.0);
    double count = 0;
    const auto part = [=](auto lanes, std::int64_t first, std::int64_t n, std::int64_t c) {
      constexpr int L = lanes;
      using V = vec<C, L>;
      const T* p = data + first * channels + c;
      V sum[4] = {};  // several sums, so no addition waits for the previous one
      std::int64_t r = 0;
      for (; r + 4 <= n; r += 4)
        for (int u = 0; u < 4; ++u) sum[u] += load<L>(p + (r + u) * channels);
      for (; r < n; ++r) sum[0] += load<L>(p + r * channels);
      const V mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / static_cast<C>(n);
      V square[4] = {};
      for (r = 0; r + 4 <= n; r += 4)
        for (int u = 0; u < 4; ++u) {
          const V d = load<L>(p + (r + u) * channels) - mean;
          square[u] += d * d;
        }
      for (; r < n; ++r) {
        const V d = load<L>(p + r * channels) - mean;
        square[0] += d * d;
      }
      return Pair<V>{mean, (square[0] + square[1]) + (square[2] + square[3])};
    };
    // Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    const auto combine = [&](std::int64_t n, const C* chunk_mean, const C* chunk_m2) {
      const double total = count + static_cast<double>(n);
      const double weight = static_cast<double>(n) / total;
      for (std::int64_t c = 0; c < channels; ++c) {
        const double delta = chunk_mean[c] - mean[c];
        mean[c] += delta * weight;
        m2[c] += chunk_m2[c] + delta * delta * count * weight;
      }
      count = total;
    };
    sum_over_rows<C>(rows, channels, part, combine);
    std::copy(mean.begin(), mean.end(), mean_out.data<C>());
    std::copy(m2.begin(), m2.end(), m2_out.data<C>());
    *count_out.data<C>() = static_cast<C>(count);
    if (!update) return;
    const BatchNormTracker<C> track(*update);
    for (std::int64_t c = 0; c < channels; ++c)
      track(c, mean_out.data<C>()[c], m2_out.data<C>()[c], static_cast<C>(count));
  });
}

void CpuBackend::batch_norm_combine(const Array& parts, const Array& mean, const Array& m2, const Array& count,
                                    const BatchNormUpdate& update) {
  dispatch_floating(mean.dtype(), "batch_norm", [&](auto type) {
    using C = compute_t<decltype(type)>;
    const BatchNormParts<C> all{static_cast<const C*>(parts.raw()), parts.dim(0), mean.numel()};
    const BatchNormTracker<C> track(update);
    for (std::int64_t c = 0; c < mean.numel(); ++c)
      all.combine(c, mean.data<C>(), m2.data<C>(), count.data<C>(), track);
  });
}

void CpuBackend::batch_norm_apply(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                  const Array* addend, const Array& y, const Array& selected, const Array& index) {
  const std::int64_t channels = x.dim(1), width = x.dim(3);
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const Coefficients<C> k(affine);
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    if (!fusion.max_pool_2x2) {
      const std::int64_t rows = x.dim(0) * x.dim(2) * width;
      const T* more = addend ? static_cast<const T*>(addend->raw()) : nullptr;
      cpu::parallel_for(rows, x.numel(), [&](std::int64_t r) {
        cpu::for_each_channel_block<C>(channels, [&](auto lanes, std::int64_t c) {
          constexpr int L = lanes;
          vec<C, L> v = load<L>(in + r * channels + c) * load<L>(&k.scale[c]) + load<L>(&k.shift[c]);
          if (more) v += load<L>(more + r * channels + c);
          if (fusion.relu) v = v < 0 ? vec<C, L>{} : v;
          store<L>(out + r * channels + c, v);
        });
      });
      return;
    }
    const std::int64_t out_h = y.dim(2), out_w = y.dim(3), images = x.dim(0), height = x.dim(2);
    T* chosen = static_cast<T*>(selected.raw());
    std::uint8_t* place = index.data<std::uint8_t>();
    cpu::parallel_for(images * out_h, x.numel(), [&](std::int64_t row) {
      const T* top = in + (row / out_h * height + row % out_h * 2) * width * channels;
      cpu::for_each_channel_block<C>(channels, [&](auto lanes, std::int64_t c) {
        constexpr int L = lanes;
        using V = vec<C, L>;
        using M = vec<cpu::mask_t<C>, L>;
        const V scale = load<L>(&k.scale[c]), shift = load<L>(&k.shift[c]);
        for (std::int64_t w = 0; w < out_w; ++w) {
          const T* window = top + 2 * w * channels + c;
          V best_x = load<L>(window);
          V best = best_x * scale + shift;
          M where = {};
          for (int i = 1; i < 4; ++i) {
            const V candidate_x = load<L>(window + (i / 2 * width + i % 2) * channels);
            const V candidate = candidate_x * scale + shift;
            const M better = candidate > best || candidate != candidate;
            best = better ? candidate : best;
            best_x = better ? candidate_x : best_x;
            where = better ? M{} + i : where;
          }
          if (fusion.relu) {
            where = best > 0 ? where : M{} + no_place;
            best = best < 0 ? V{} : best;
          }
          const std::int64_t at = (row * out_w + w) * channels + c;
          store<L>(out + at, best);
          store<L>(chosen + at, best_x);
          cpu::store_bytes<L>(place + at, where);
        }
      });
    });
  });
}

void CpuBackend::batch_norm_grad_reduce(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                        const Array& grad_y, const BatchNormLastRelu* last, const Array& sum_dy,
                                        const Array& sum_dy_xhat) {
  const std::int64_t channels = x.dim(1), rows = x.dim(0) * x.dim(2) * x.dim(3);
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const Coefficients<C> k(affine);
    const T* in = static_cast<const T*>(x.raw());
    const T* grad = static_cast<const T*>(grad_y.raw());
    const T* y = last ? static_cast<const T*>(last->y.raw()) : nullptr;
    T* passed = last ? static_cast<T*>(last->grad.raw()) : nullptr;
    std::vector<double> dy(channels, 0.0), dy_xhat(channels, 0.0);
    const auto part = [&](auto lanes, std::int64_t first, std::int64_t n, std::int64_t c) {
      constexpr int L = lanes;
      using V = vec<C, L>;
      const V scale = load<L>(&k.scale[c]), shift = load<L>(&k.shift[c]);
      const V mean = load<L>(k.mean + c), invstd = load<L>(k.invstd + c);
      V dy[2] = {}, dy_xhat[2] = {};
      const auto add = [&](int u, std::int64_t r) {
        const std::int64_t at = (first + r) * channels + c;
        const V v = load<L>(in + at);
        V g = load<L>(grad + at);
        if (fusion.relu) g = v * scale + shift > 0 ? g : V{};
        if (y) {
          g = V(load<L>(y + at)) <= 0 ? V{} : g;  // keeps NaN, like functors::Relu
          store<L>(passed + at, g);
        }
        dy[u] += g;
        dy_xhat[u] += g * (v - mean);
      };
      std::int64_t r = 0;
      for (; r + 2 <= n; r += 2) {
        add(0, r);
        add(1, r + 1);
      }
      if (r < n) add(0, r);
      return Pair<V>{dy[0] + dy[1], (dy_xhat[0] + dy_xhat[1]) * invstd};
    };
    const auto combine = [&](std::int64_t, const C* a, const C* b) {
      for (std::int64_t c = 0; c < channels; ++c) {
        dy[c] += a[c];
        dy_xhat[c] += b[c];
      }
    };
    sum_over_rows<C>(rows, channels, part, combine);
    std::copy(dy.begin(), dy.end(), sum_dy.data<C>());
    std::copy(dy_xhat.begin(), dy_xhat.end(), sum_dy_xhat.data<C>());
  });
}

void CpuBackend::batch_norm_grad_input(const Array& x, const BatchNormAffine& affine, BatchNormFusion fusion,
                                       const Array& grad_y, const Array& index, const Array& sum_dy,
                                       const Array& sum_dy_xhat, const Array* count, const Array& grad_x) {
  const std::int64_t channels = x.dim(1), width = x.dim(3), height = x.dim(2), images = x.dim(0);
  dispatch_floating(x.dtype(), "batch_norm", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const Coefficients<C> k(affine);
    // grad_x = scale * (dy - mean_dy - xhat * mean_dy_xhat), where scale = weight * invstd (the formula of
    // core/formulas/batch_norm.h). The kernel computes it as dy * scale + x * slope + offset.
    std::vector<C> slope(channels), offset(channels);
    for (std::int64_t c = 0; count && c < channels; ++c) {
      slope[c] = -k.scale[c] * k.invstd[c] * (sum_dy_xhat.data<C>()[c] / *count->data<C>());
      offset[c] = -k.scale[c] * (sum_dy.data<C>()[c] / *count->data<C>()) - slope[c] * k.mean[c];
    }
    const T* in = static_cast<const T*>(x.raw());
    const T* grad = static_cast<const T*>(grad_y.raw());
    T* out = static_cast<T*>(grad_x.raw());
    // Writes grad_x of `pixels` neighbouring pixels that are not the maximum of any window. Only the statistics
    // contribute to it.
    const auto without_window = [&](auto lanes, std::int64_t at, std::int64_t pixels, std::int64_t c) {
      constexpr int L = lanes;
      using V = vec<C, L>;
      const V a = load<L>(&slope[c]), b = load<L>(&offset[c]);
      for (std::int64_t i = 0; i < pixels; ++i, at += channels) store<L>(out + at, V(load<L>(in + at) * a + b));
    };
    if (!fusion.max_pool_2x2) {
      cpu::parallel_for(images * height, x.numel(), [&](std::int64_t row) {
        cpu::for_each_channel_block<C>(channels, [&](auto lanes, std::int64_t c) {
          constexpr int L = lanes;
          using V = vec<C, L>;
          const V scale = load<L>(&k.scale[c]), shift = load<L>(&k.shift[c]);
          const V a = load<L>(&slope[c]), b = load<L>(&offset[c]);
          for (std::int64_t w = 0; w < width; ++w) {
            const std::int64_t at = (row * width + w) * channels + c;
            const V v = load<L>(in + at);
            V dy = load<L>(grad + at);
            if (fusion.relu) dy = v * scale + shift > 0 ? dy : V{};
            store<L>(out + at, V(dy * scale + (v * a + b)));
          }
        });
      });
      return;
    }
    const std::int64_t out_h = grad_y.dim(2), out_w = grad_y.dim(3);
    const std::uint8_t* place = index.data<std::uint8_t>();
    cpu::parallel_for(images * out_h, x.numel(), [&](std::int64_t row) {
      const std::int64_t image = row / out_h, h = row % out_h * 2;
      const std::int64_t top = (image * height + h) * width * channels;
      cpu::for_each_channel_block<C>(channels, [&](auto lanes, std::int64_t c) {
        constexpr int L = lanes;
        using V = vec<C, L>;
        using M = vec<cpu::mask_t<C>, L>;
        const V scale = load<L>(&k.scale[c]), a = load<L>(&slope[c]), b = load<L>(&offset[c]);
        // The upper row of the windows is finished before the lower row. x is then read in memory order, which takes
        // less than half the time.
        for (int i = 0; i < 2; ++i)
          for (std::int64_t w = 0; w < out_w; ++w) {
            const std::int64_t from = (row * out_w + w) * channels + c;
            const V dy = load<L>(grad + from) * scale;
            const M where = cpu::load_bytes<L, cpu::mask_t<C>>(place + from);
            for (int j = 0; j < 2; ++j) {
              const std::int64_t at = top + (i * width + 2 * w + j) * channels + c;
              const V others = load<L>(in + at) * a + b;
              store<L>(out + at, V(where == 2 * i + j ? others + dy : others));
            }
          }
        // If the width or height is odd, the last column or row belongs to no window.
        for (std::int64_t i = 0; i < 2; ++i)
          without_window(lanes, top + (i * width + 2 * out_w) * channels + c, width - 2 * out_w, c);
        if (h + 3 == height) without_window(lanes, top + 2 * width * channels + c, width, c);
      });
    });
  });
}

}  // namespace tandem

#include <tandem/core/cpu/conv2d_direct.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/shape.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tandem::cpu {

namespace {

// Eight also where vectors could be longer: with few channels more lanes would stay empty.
constexpr int lanes = 8;
using Lanes = vec<float, lanes>;

// The first `count` of `lanes` numbers, and zeros; memory behind them is not read.
Lanes load_some(const float* from, std::int64_t count) {
#ifdef __AVX2__
  static constexpr std::array<std::int32_t, 16> masks = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_maskload_ps(from, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&masks[8 - count])));
#else
  Lanes v{};
  std::memcpy(&v, from, static_cast<std::size_t>(count) * sizeof(float));
  return v;
#endif
}

template <int L>
float sum_of(vec<float, L> v) {
  if constexpr (L == 2) {
    return v[0] + v[1];
  } else {
    vec<float, L / 2> low, high;
    for (int i = 0; i < L / 2; ++i) {
      low[i] = v[i];
      high[i] = v[i + L / 2];
    }
    return sum_of<L / 2>(low + high);
  }
}

// The sums of eight vectors. Each step adds neighbours of two vectors, at once.
Lanes sums_of(const Lanes (&v)[8]) {
  const auto by_1 = [](Lanes a, Lanes b) {
    return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  };
  const auto by_2 = [](Lanes a, Lanes b) {
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  };
  const Lanes low = by_2(by_1(v[0], v[1]), by_1(v[2], v[3])), high = by_2(by_1(v[4], v[5]), by_1(v[6], v[7]));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
}

// With so few output channels lanes run along rows.
constexpr std::int64_t most_along = 3;

// Rows of output pixels, and rows of the image around them in which padding is written out: each output pixel sees
// whole rows of the kernel.
struct Lines {
  const float* x;      // what the first output pixel sees
  std::int64_t x_row;  // from one row of x to the next, in numbers
  std::int64_t channels, out_width, out_channels;
  // (O, KH, KW, C) where lanes run along rows, (O / lanes, KH, KW, C, lanes) where they run across output channels,
  // with zeros where there are no more of these.
  const float* weight;
  const float* bias;  // with zeros, too
  Window window;

  std::int64_t kernel_row() const { return window.kernel.w * channels; }
  const float* seen(std::int64_t row, std::int64_t column, std::int64_t k) const {
    return x + (row * window.stride.h + k * window.dilation.h) * x_row + column * window.stride.w * channels;
  }

  // Lanes along rows: output channel `o` of the P pixels of `row` from `column` on, to `out`.
  template <int P>
  void along(std::int64_t row, std::int64_t column, std::int64_t o, float* out) const {
    const std::int64_t step = window.stride.w * channels;
    Lanes sums[P] = {};
    for (std::int64_t k = 0; k < window.kernel.h; ++k) {
      const float* const pixels = seen(row, column, k);
      const float* const weights = weight + (o * window.kernel.h + k) * kernel_row();
      const auto add = [&](auto load_at) {
        const Lanes w = load_at(weights);
        for (int p = 0; p < P; ++p) sums[p] += load_at(pixels + p * step) * w;
      };
      std::int64_t i = 0;
      for (; i + lanes <= kernel_row(); i += lanes)
        add([&](const float* from) { return load_raw<float, lanes>(from + i); });
      if (i < kernel_row()) add([&](const float* from) { return load_some(from + i, kernel_row() - i); });
    }
    if constexpr (P == 8) {
      const Lanes totals = sums_of(sums) + bias[o];
      if (out_channels == 1) return store<8>(out, totals);
      for (int p = 0; p < P; ++p) out[p * out_channels + o] = totals[p];
    } else {
      for (int p = 0; p < P; ++p) out[p * out_channels + o] = sum_of<lanes>(sums[p]) + bias[o];
    }
  }

  // Lanes across output channels: those from `o` on, of the P pixels.
  template <int P>
  void across(std::int64_t row, std::int64_t column, std::int64_t o, float* out) const {
    constexpr int half = (P + 1) / 2;
    const std::int64_t step = window.stride.w * channels;
    Lanes sums[P] = {};
    for (std::int64_t k = 0; k < window.kernel.h; ++k) {
      const float* const pixels = seen(row, column, k);
      const float* const weights = weight + (o / lanes * window.kernel.h + k) * kernel_row() * lanes;
      for (std::int64_t i = 0; i < kernel_row(); ++i) {
        const Lanes w = load_raw<float, lanes>(weights + i * lanes);
        const float* pixel = pixels + i;
        for (int p = 0; p < P; ++p) {
          if (p == half) pixel += half * step;
          sums[p] += pixel[p % half * step] * w;
          // Hides from GCC how the addresses hang together. It would keep one in a register for each pixel, and there
          // are not so many registers.
          asm("" : "+r"(pixel));
        }
      }
    }
    const std::int64_t count = std::min<std::int64_t>(out_channels - o, lanes);
    for (int p = 0; p < P; ++p) {
      const Lanes sum = sums[p] + load_raw<float, lanes>(bias + o);
      float* const to = out + p * out_channels + o;
      if (count == lanes) store<lanes>(to, sum);
      else
        for (std::int64_t i = 0; i < count; ++i) to[i] = sum[i];
    }
  }

  // Calls f(std::integral_constant<int, P>, column) for tiles of P columns that cover all, with the one P up to `most`
  // that covers them best. The last two tiles may overlap.
  template <int most, class F>
  void cover(F f) const {
    const std::int64_t tiles = (out_width + most - 1) / most, best = (out_width + tiles - 1) / tiles;
    const auto in_tiles_of = [&](auto p) {
      for (std::int64_t t = 0; t < tiles; ++t) f(p, std::min(t * p, out_width - p));
    };
    [&]<int... i>(std::integer_sequence<int, i...>) {
      ((i + 1 == best ? in_tiles_of(std::integral_constant<int, i + 1>{}) : void()), ...);
    }
    (std::make_integer_sequence<int, most>{});
  }

  // A row of output pixels, to `out`. As many pixels at a time as there are registers for their sums.
  void compute(std::int64_t row, float* out) const {
    const auto to = [&](std::int64_t column) { return out + column * out_channels; };
    if (out_channels > most_along) {
      for (std::int64_t o = 0; o < out_channels; o += lanes)
        cover<14>([&](auto p, std::int64_t column) { across<p>(row, column, o, to(column)); });
      return;
    }
    for (std::int64_t o = 0; o < out_channels; ++o)
      cover<8>([&](auto p, std::int64_t column) { along<p>(row, column, o, to(column)); });
  }
};

// A kernel of 1 x 1 between few channels. Where both numbers are known when this is compiled, GCC computes many pixels
// side by side.
template <int inputs, int outputs>
void by_pixels(const float* __restrict x, const float* weight, const float* bias, std::int64_t pixels,
               float* __restrict y) {
  float w[outputs][inputs], b[outputs];
  for (int o = 0; o < outputs; ++o) {
    b[o] = bias[o];
    for (int c = 0; c < inputs; ++c) w[o][c] = weight[o * inputs + c];
  }
  for (std::int64_t p = 0; p < pixels; ++p)
    for (int o = 0; o < outputs; ++o) {
      float sum = b[o];
      for (int c = 0; c < inputs; ++c) sum += x[p * inputs + c] * w[o][c];
      y[p * outputs + o] = sum;
    }
}

// The function above for these numbers of channels, or null where there is none. GCC makes nothing good of 16 to 3.
using ByPixels = void (*)(const float*, const float*, const float*, std::int64_t, float*);
ByPixels by_pixels_of(const Window& window, std::int64_t inputs, std::int64_t outputs) {
  ByPixels found = nullptr;
  if (window.kernel != Extent(1) || window.stride != Extent(1) || window.padding != Extent(0)) return found;
  const auto among = [&]<int... in>(auto out, std::integer_sequence<int, in...>) {
    ((inputs == in && outputs == out ? void(found = by_pixels<in, decltype(out)::value>) : void()), ...);
  };
  among(std::integral_constant<int, 1>{}, std::integer_sequence<int, 1, 2, 3, 4, 8, 16>{});
  among(std::integral_constant<int, 2>{}, std::integer_sequence<int, 1, 2, 3, 4, 8, 16>{});
  among(std::integral_constant<int, 3>{}, std::integer_sequence<int, 1, 2, 3, 4, 8>{});
  return found;
}

// Output rows that are computed from one copy of what they see. Chosen: an image's rows above and below are then copied
// seldom, and the copy stays in the cache.
constexpr std::int64_t lines_at_once = 8;

bool can(DType dtype, const Window& window) {
  return (dtype == DType::f32 || dtype == DType::bf16) && window.groups == 1 && window.dilation.w == 1;
}

// Calls compute(y), with y in f32.
template <class F>
void in_f32(const Array& y, F compute) {
  if (y.dtype() == DType::f32) return compute(y);
  const Array result = Array::empty_channels_last(y.shape());
  compute(result);
  backend({}).copy(result, y);
}

// Chosen on an AMD EPYC, with AVX2 (Zen 3, by bench/convolutions) and with AVX-512 (Zen 4): elsewhere oneDNN is as
// fast. oneDNN's vectors are filled up with output channels that do not exist.
bool is_faster(const Window& window, std::int64_t inputs, std::int64_t outputs) {
  const bool avx512 = onednn::has_avx512(), single = window.kernel == Extent(1);
  const std::int64_t products = inputs * window.kernel.h * window.kernel.w;  // for one output
  if (by_pixels_of(window, inputs, outputs)) return true;
  if (outputs <= most_along) {
    if (single) return avx512 ? inputs >= 8 * outputs : outputs == 1 && inputs >= 8;
    return products >= (avx512 ? 9 : 16) * outputs;
  }
  if (single) return avx512 && outputs <= 8 && inputs >= 16;
  return outputs <= 8 ? products >= 20 : !avx512 && outputs <= 16 && products >= 400;
}

// x and y are of f32, and `weight` is (O, KH, KW, C).
void convolve(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
              const Array& y) {
  const std::int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const std::int64_t out_channels = y.dim(1), out_height = y.dim(2), out_width = y.dim(3);
  const std::int64_t vectors = (out_channels + lanes - 1) / lanes;
  Array packed = weight.to(DType::f32).contiguous();
  if (out_channels > most_along) {
    const Array filled = ops::zeros({vectors, lanes, packed.dim(1), packed.dim(2), packed.dim(3)});
    backend({}).copy(
        packed,
        filled.reshape({vectors * lanes, packed.dim(1), packed.dim(2), packed.dim(3)}).narrow(0, 0, out_channels));
    packed = filled.permute({0, 2, 3, 4, 1}).contiguous();
  }
  const Array biases = ops::zeros({vectors * lanes});
  if (bias) backend({}).copy(*bias, biases.narrow(0, 0, out_channels));

  if (const ByPixels compute = by_pixels_of(window, channels, out_channels)) {
    constexpr std::int64_t at_once = 4096;
    const std::int64_t pixels = x.dim(0) * height * width;
    return parallel_for((pixels + at_once - 1) / at_once, x.numel(), [&](std::int64_t i) {
      compute(x.data<float>() + i * at_once * channels, packed.data<float>(), biases.data<float>(),
              std::min(at_once, pixels - i * at_once), y.data<float>() + i * at_once * out_channels);
    });
  }

  const std::int64_t row = width * channels, padding = window.padding.w * channels, padded_row = row + 2 * padding;
  const std::int64_t blocks = (out_height + lines_at_once - 1) / lines_at_once;
  parallel_for(x.dim(0) * blocks, x.numel(), [&](std::int64_t i) {
    const std::int64_t image = i / blocks, first = i % blocks * lines_at_once;
    const std::int64_t count = std::min(lines_at_once, out_height - first);
    const std::int64_t top = first * window.stride.h - window.padding.h;
    const float* const pixels = x.data<float>() + image * height * row;
    Lines lines{nullptr, row, channels, out_width, out_channels, packed.data<float>(), biases.data<float>(), window};
    Array copy;
    if (window.padding == Extent(0)) {
      lines.x = pixels + top * row;
    } else {
      const std::int64_t rows = (count - 1) * window.stride.h + (window.kernel.h - 1) * window.dilation.h + 1;
      copy = Array::empty({rows * padded_row});
      lines.x = copy.data<float>();
      lines.x_row = padded_row;
      for (std::int64_t r = 0; r < rows; ++r) {
        float* to = copy.data<float>() + r * padded_row;
        const std::int64_t h = top + r;
        if (0 <= h && h < height) {
          to = std::fill_n(to, padding, 0.f);
          to = std::copy_n(pixels + h * row, row, to);
          std::fill_n(to, padding, 0.f);
        } else {
          std::fill_n(to, padded_row, 0.f);
        }
      }
    }
    for (std::int64_t r = 0; r < count; ++r)
      lines.compute(r, y.data<float>() + (image * out_height + first + r) * out_width * out_channels);
  });
}

}  // namespace

Window DirectConv::from_behind() const {
  const auto behind = [](std::int64_t kernel, std::int64_t dilation, std::int64_t padding) {
    return dilation * (kernel - 1) - padding;
  };
  Window window = window_;
  window.padding = {behind(window.kernel.h, window.dilation.h, window.padding.h),
                    behind(window.kernel.w, window.dilation.w, window.padding.w)};
  return window;
}

// oneDNN's sums of bf16 are nearly twice as fast as those of f32.
bool DirectConv::pays(DType dtype) const {
  return can(dtype, window_) && (dtype == DType::f32 || y_[1] <= most_along) && is_faster(window_, x_[1], y_[1]);
}

bool DirectConv::beats_tiles(DType dtype) const { return y_[1] <= most_along && pays(dtype); }

bool DirectConv::pays_for_input(DType dtype) const {
  const Window window = from_behind();
  return can(dtype, window) && window.stride == Extent(1) && window.padding.h >= 0 && window.padding.w >= 0 &&
         x_[1] <= most_along && is_faster(window, y_[1], x_[1]);
}

void DirectConv::forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const {
  in_f32(y, [&](const Array& sums) { convolve(x.to(DType::f32), weight.permute({0, 2, 3, 1}), bias, window_, sums); });
}

void DirectConv::grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const {
  const Array turned = ops::flip(weight, {2, 3}).permute({1, 2, 3, 0});
  in_f32(grad_x,
         [&](const Array& sums) { convolve(grad_y.to(DType::f32), turned, std::nullopt, from_behind(), sums); });
}

}  // namespace tandem::cpu

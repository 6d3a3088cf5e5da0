#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/direct_conv.h>
#include <tandem/core/cpu/conv/lanes.h>
#include <tandem/core/cpu/conv/rotated.h>
#include <tandem/core/cpu/conv/row_bands.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tandem::cpu {

namespace {

// Repeats n numbers in all lanes. From memory this is one instruction.
template <int n>
Lanes repeated(vec<float, n> v) {
  if constexpr (n == lanes) return v;
#ifdef __AVX512F__
  if constexpr (n == 8) return _mm512_broadcast_f32x8(v);
  if constexpr (n == 4) return _mm512_broadcast_f32x4(v);
  if constexpr (n == 2) return std::bit_cast<Lanes>(_mm512_set1_pd(std::bit_cast<double>(v)));
#elif defined(__AVX__)
  if constexpr (n == 4) return _mm256_set_m128(v, v);
  if constexpr (n == 2) return std::bit_cast<Lanes>(_mm256_set1_pd(std::bit_cast<double>(v)));
  if constexpr (n == 1) return _mm256_set1_ps(v[0]);
#endif
  return [&]<int... i>(std::integer_sequence<int, i...>) { return Lanes{v[i % n]...}; }
  (std::make_integer_sequence<int, lanes>{});
}

// Picks lane index(i) of a and b for each lane i. The numbering of b's lanes continues that of a's.
template <class F>
Lanes pick(Lanes a, Lanes b, F index) {
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, index(std::integral_constant<int, i>{})...);
  }
  (std::make_integer_sequence<int, lanes>{});
}

// Adds up every n neighbours within the n vectors `v`, for all of them at once, in place. Returns the sums.
template <int n>
[[gnu::always_inline]] inline Lanes sums_of(Lanes* v) {
  if constexpr (n > 1) {
    constexpr int half = n / 2;
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i)
      v[i] = pick(v[2 * i], v[2 * i + 1], [](auto lane) { return lane / half * n + lane % half; }) +
             pick(v[2 * i], v[2 * i + 1], [](auto lane) { return lane / half * n + lane % half + half; });
    return sums_of<half>(v);
  } else {
    return v[0];
  }
}

// The number of output channels side by side in a vector. The other lanes are for neighbours in a row of the kernel.
constexpr std::int64_t most_together = 8;
std::int64_t together(std::int64_t out_channels) {
  return std::min<std::int64_t>(most_together, static_cast<std::int64_t>(std::bit_ceil(std::uint64_t(out_channels))));
}

// Rows of output pixels, and the image rows around them with explicit padding, so each output pixel reads whole rows of
// the kernel.
struct OutputRows {
  const float* x;      // the numbers that the first output pixel reads
  std::int64_t x_row;  // from one row of x to the next, in numbers
  std::int64_t channels, out_width, out_channels;
  // (O / together, KH, KW * C / n, together, n), where n = lanes / together. It is padded with zeros.
  const float* weight;
  const float* bias;  // also padded with zeros
  Window window;

  std::int64_t kernel_row() const { return window.kernel.w * channels; }
  const float* seen(std::int64_t row, std::int64_t column, std::int64_t k) const {
    return x + (row * window.stride.h + k * window.dilation.h) * x_row + column * window.stride.w * channels;
  }

  // Computes output channels starting at `o`, of the P pixels of `row` starting at `column`, and writes them to `out`.
  template <int outputs, int P>
  [[gnu::always_inline]] void compute_tile(std::int64_t row, std::int64_t column, std::int64_t o, float* out) const {
    constexpr int n = lanes / outputs, half = (P + 1) / 2;
    // The next tile follows this one in memory. With a larger kernel, this tile has read most of the next tile's input.
    const bool fetches_next = window.kernel == Extent(1);
    const std::int64_t step = window.stride.w * channels;
    Lanes sums[(P + n - 1) / n * n] = {};
    const float* weights = weight + o * window.kernel.h * ((kernel_row() + n - 1) / n) * n;
    for (std::int64_t k = 0; k < window.kernel.h; ++k) {
      const float* const pixels = seen(row, column, k);
      const auto add = [&](std::int64_t first, auto load_at) {
        const Lanes w = load_raw<float, lanes>(weights);
        if (fetches_next && first % 16 == 0) {
#pragma GCC unroll 16
          for (int p = 0; p < P; ++p) __builtin_prefetch(pixels + first + (P + p) * step);
        }
        const float* pixel = pixels + first;
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
          if (p == half) pixel += half * step;
          sums[p] += repeated<n>(load_at(pixel + p % half * step)) * w;
          // Hides the relation between the addresses from GCC. GCC would otherwise keep an address in a register for
          // each pixel, and there are not enough registers.
          asm("" : "+r"(pixel));
        }
        weights += lanes;
      };
      std::int64_t i = 0;
      for (; i + n <= kernel_row(); i += n) add(i, [](const float* from) { return load_raw<float, n>(from); });
      if (i < kernel_row()) add(i, [&](const float* from) { return load_some<n>(from, kernel_row() - i); });
    }
    const Lanes biases = repeated<outputs>(load_raw<float, outputs>(bias + o));
#pragma GCC unroll 16
    for (int p = 0; p < P; p += n)
      store_pixels<outputs>(sums_of<n>(sums + p) + biases, std::min(P - p, n), o, out + p * out_channels);
  }

  // Stores the sums of the first `pixels` pixels of a vector.
  template <int outputs>
  [[gnu::always_inline]] void store_pixels(Lanes sums, int pixels, std::int64_t o, float* out) const {
    if (out_channels == outputs) return store_some<lanes>(out, sums, pixels * outputs);
    if (outputs == 4 && out_channels == 3) {
      const Lanes close = pick(sums, sums, [](auto lane) { return (lane / 3 * 4 + lane % 3) % lanes; });
      return store_some<lanes>(out, close, pixels * 3);
    }
    const std::int64_t count = std::min<std::int64_t>(out_channels - o, outputs);
    for (int p = 0; p < pixels; ++p) store_some<lanes>(out + p * out_channels + o, sums, count, p * outputs);
  }

  // Computes all columns, in tiles of P. The last two tiles may overlap.
  template <int outputs, int P>
  void compute_tiles(std::int64_t row, std::int64_t o, float* out) const {
    const OutputRows rows = *this;  // a copy: no store to `out` can change it, so GCC keeps it in registers
    std::int64_t column = 0;
    for (; column + P < rows.out_width; column += P)
      rows.compute_tile<outputs, P>(row, column, o, out + column * rows.out_channels);
    column = rows.out_width - P;
    rows.compute_tile<outputs, P>(row, column, o, out + column * rows.out_channels);
  }

  // Computes a row of output pixels and writes it to `out`. A tile has as many columns as there are registers for their
  // sums, or fewer if that covers the row better. It is a multiple of n if the row has so many columns. AVX-512 has 32
  // registers, but 16 sums keep both multipliers busy.
  template <int outputs>
  void compute_row(std::int64_t row, float* out) const {
    constexpr int n = lanes / outputs, registers = lanes == 16 ? 16 : 14, most = registers / n * n;
    const std::int64_t tiles = (out_width + most - 1) / most, best = (out_width + tiles - 1) / tiles;
    const std::int64_t columns = std::min((best + n - 1) / n * n, out_width);
    for (std::int64_t o = 0; o < out_channels; o += outputs) [&]<int... i>(std::integer_sequence<int, i...>) {
        ((i + 1 == columns ? compute_tiles<outputs, i + 1>(row, o, out) : void()), ...);
      }
    (std::make_integer_sequence<int, most>{});
  }
  void compute(std::int64_t row, float* out) const {
    switch (together(out_channels)) {
      case 1: return compute_row<1>(row, out);
      case 2: return compute_row<2>(row, out);
      case 4: return compute_row<4>(row, out);
      default: return compute_row<most_together>(row, out);
    }
  }
};

// Computes a 1 x 1 kernel between few channels. Since both numbers are known at compile time, GCC computes many pixels
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

// Returns whether each output pixel reads only the input pixel at the same position.
bool is_pixelwise(const Window& window) {
  return window.kernel == Extent(1) && window.stride == Extent(1) && window.padding == Extent(0);
}

// Returns by_pixels() for these numbers of channels, or null if there is no instance.
using ByPixels = void (*)(const float*, const float*, const float*, std::int64_t, float*);
ByPixels by_pixels_of(const Window& window, std::int64_t inputs, std::int64_t outputs) {
  ByPixels found = nullptr;
  if (!is_pixelwise(window)) return found;
  const auto among = [&]<int... in>(auto out, std::integer_sequence<int, in...>) {
    ((inputs == in && outputs == out ? void(found = by_pixels<in, decltype(out)::value>) : void()), ...);
  };
  among(std::integral_constant<int, 1>{}, std::integer_sequence<int, 1, 2, 3, 4, 8>{});
  among(std::integral_constant<int, 2>{}, std::integer_sequence<int, 1, 2, 3, 4, 8>{});
  among(std::integral_constant<int, 3>{}, std::integer_sequence<int, 1, 2, 3, 4, 8>{});
  return found;
}

bool can(DType dtype, const Window& window) {
  return (dtype == DType::f32 || dtype == DType::bf16) && window.groups == 1 && window.dilation.w == 1;
}

// With at most this many outputs, direct sums are worth a conversion from bf16, and faster than tiles. In the gradient
// of the input, the input's channels count as outputs.
constexpr std::int64_t few = 4;

// These numbers were chosen with bench/convolutions: with AVX2 on an AMD EPYC (Zen 3), with AVX-512 on a Zen 4 and on
// an Intel Xeon. For other layers oneDNN is as fast.
bool is_faster(const Window& window, std::int64_t inputs, std::int64_t outputs) {
  const bool avx512 = onednn::has_avx512(), single = window.kernel == Extent(1);
  const std::int64_t products = inputs * window.kernel.h * window.kernel.w;  // for one output
  if (by_pixels_of(window, inputs, outputs)) return true;
  if (single) return inputs >= 8 && outputs <= most_together;
  if (outputs <= few) return products >= (avx512 ? 8 : 16) * outputs;
  return outputs <= most_together ? products >= 20 : !avx512 && outputs <= 16 && products >= 400;
}

// `kernels` (O, KH, KW, C) and `bias` (O), in the layout of OutputRows.
struct Packed {
  Array weight, bias;

  Packed(const Array& kernels, const std::optional<Array>& bias) {
    const std::int64_t out_channels = kernels.dim(0), height = kernels.dim(1), row = kernels.dim(2) * kernels.dim(3);
    const std::int64_t outputs = together(out_channels), groups = (out_channels + outputs - 1) / outputs;
    const std::int64_t n = lanes / outputs, steps = (row + n - 1) / n;
    const Array filled = Array::zeros({groups * outputs, height, steps * n});
    backend({}).copy(kernels.reshape({out_channels, height, row}), filled.narrow(0, 0, out_channels).narrow(2, 0, row));
    weight = filled.reshape({groups, outputs, height, steps, n}).permute({0, 2, 3, 1, 4}).contiguous();
    this->bias = Array::zeros({groups * outputs});
    if (bias) backend({}).copy(*bias, this->bias.narrow(0, 0, out_channels));
  }
};

// Each output pixel reads the input pixel at the same position. All pixels form one long row, which threads share.
void convolve_pixels(const Array& x, const Array& kernels, const std::optional<Array>& bias, const Window& window,
                     const Array& y) {
  const std::int64_t channels = x.dim(1), out_channels = y.dim(1), pixels = x.numel() / channels;
  const auto share = [&](auto compute) {
    constexpr std::int64_t at_once = 1024;
    parallel_for((pixels + at_once - 1) / at_once, x.numel(), [&](std::int64_t i) {
      const std::int64_t first = i * at_once, count = std::min(at_once, pixels - first);
      compute(x.data<float>() + first * channels, count, y.data<float>() + first * out_channels);
    });
  };
  if (const ByPixels by_pixels = by_pixels_of(window, channels, out_channels)) {
    const Array biases = bias ? bias->to(DType::f32).contiguous() : Array::zeros({out_channels});
    return share([&](const float* from, std::int64_t count, float* to) {
      by_pixels(from, kernels.data<float>(), biases.data<float>(), count, to);
    });
  }
  const Packed packed(kernels, bias);
  share([&](const float* from, std::int64_t count, float* to) {
    const OutputRows rows{
        from, 0, channels, count, out_channels, packed.weight.data<float>(), packed.bias.data<float>(), window};
    rows.compute(0, to);
  });
}

// x and y are f32, and `weight` is (O, KH, KW, C).
void convolve(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
              const Array& y) {
  const Array kernels = weight.to(DType::f32).contiguous();
  if (is_pixelwise(window)) return convolve_pixels(x, kernels, bias, window, y);

  const std::int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const std::int64_t out_channels = y.dim(1), out_height = y.dim(2), out_width = y.dim(3);
  const Packed packed(kernels, bias);
  const std::int64_t row = width * channels, padding = window.padding.w * channels, padded_row = row + 2 * padding;
  const RowBands bands(window, y.shape());
  parallel_for(bands.count(), x.numel(), [&](std::int64_t i) {
    const auto [image, first, count, top] = bands[i];
    const float* const in = x.data<float>() + image * height * row;
    OutputRows outputs{
        nullptr, row, channels, out_width, out_channels, packed.weight.data<float>(), packed.bias.data<float>(),
        window};
    Array copy;
    if (window.padding == Extent(0)) {
      outputs.x = in + top * row;
    } else {
      const std::int64_t rows = (count - 1) * window.stride.h + (window.kernel.h - 1) * window.dilation.h + 1;
      copy = Array::empty({rows * padded_row});
      outputs.x = copy.data<float>();
      outputs.x_row = padded_row;
      for (std::int64_t r = 0; r < rows; ++r) {
        float* to = copy.data<float>() + r * padded_row;
        const std::int64_t h = top + r;
        if (0 <= h && h < height) {
          to = std::fill_n(to, padding, 0.f);
          to = std::copy_n(in + h * row, row, to);
          std::fill_n(to, padding, 0.f);
        } else {
          std::fill_n(to, padded_row, 0.f);
        }
      }
    }
    for (std::int64_t r = 0; r < count; ++r)
      outputs.compute(r, y.data<float>() + (image * out_height + first + r) * out_width * out_channels);
  });
}

}  // namespace

bool DirectConv::pays() const {
  const auto& [kernel, stride, padding, dilation, groups] = layer_.window;
  const std::int64_t inputs = layer_.channels_read(), outputs = layer_.channels_written();
  if (!can(layer_.dtype, layer_.window) || !is_faster(layer_.window, inputs, outputs)) return false;
  if (layer_.pass == ConvPass::input_gradient)
    return stride == Extent(1) && can_rotate(layer_.window) && outputs <= few;
  // A bf16 image is converted as a whole, which does not pay if the stride skips pixels.
  const bool sees_all = kernel.h >= stride.h && kernel.w >= stride.w;
  return layer_.pass == ConvPass::outputs && (layer_.dtype == DType::f32 || (outputs <= few && sees_all));
}

bool DirectConv::beats_tiles() const { return layer_.channels_written() <= few && pays(); }

void DirectConv::run(const ConvArrays& arrays) {
  const ConvArrays a = in_dtype(DType::f32, layer_.pass, arrays);
  if (layer_.pass == ConvPass::outputs) convolve(a.x, a.weight.permute({0, 2, 3, 1}), a.bias, layer_.window, a.y);
  else convolve(a.y, rotated(a.weight).permute({1, 2, 3, 0}), std::nullopt, rotated(layer_.window), a.grad_x);
  copy_results(layer_.pass, a, arrays);
}

}  // namespace tandem::cpu

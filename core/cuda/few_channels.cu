#include <tandem/core/cuda/bias_gradient.h>
#include <tandem/core/cuda/few_channels.h>
#include <tandem/core/cuda/channels.cuh>

#include <algorithm>

namespace tandem::cuda {

namespace {

// Only if the loops are unrolled do sums and windows stay in registers and loads overlap. The compiler does not unroll
// them here by itself.
#ifdef __CUDACC__
#define TANDEM_UNROLL _Pragma("unroll")
#else
#define TANDEM_UNROLL
#endif

constexpr int threads = 256;

struct Sizes {
  int images, channels, height, width, out_channels, out_height, out_width;
  Sizes(const Array& x, const Array& y)
      : images(static_cast<int>(x.dim(0))),
        channels(static_cast<int>(x.dim(1))),
        height(static_cast<int>(x.dim(2))),
        width(static_cast<int>(x.dim(3))),
        out_channels(static_cast<int>(y.dim(1))),
        out_height(static_cast<int>(y.dim(2))),
        out_width(static_cast<int>(y.dim(3))) {}
};

struct Steps {
  int kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  explicit Steps(const Window& w)
      : kernel_h(static_cast<int>(w.kernel.h)),
        kernel_w(static_cast<int>(w.kernel.w)),
        stride_h(static_cast<int>(w.stride.h)),
        stride_w(static_cast<int>(w.stride.w)),
        padding_h(static_cast<int>(w.padding.h)),
        padding_w(static_cast<int>(w.padding.w)),
        dilation_h(static_cast<int>(w.dilation.h)),
        dilation_w(static_cast<int>(w.dilation.w)) {}
};

constexpr int outputs_each = 16;  // channels of a pixel that a thread computes
constexpr int most_taps = 64;

template <class T>
__global__ void __launch_bounds__(threads)
    one_channel(Sizes s, Steps steps, const T* x, const T* weight, const T* bias, T* y) {
  TANDEM_SHARED(taps, most_taps * outputs_each, float);
  const int count = steps.kernel_h * steps.kernel_w, first = static_cast<int>(blockIdx.y) * outputs_each;
  for (int i = static_cast<int>(threadIdx.x); i < count * outputs_each; i += threads)
    taps[i] = static_cast<float>(weight[(first + i % outputs_each) * count + i / outputs_each]);
  __syncthreads();
  const std::int64_t pixel = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (pixel >= static_cast<std::int64_t>(s.images) * s.out_height * s.out_width) return;
  const int ow = static_cast<int>(pixel % s.out_width), rest = static_cast<int>(pixel / s.out_width);
  const int left = ow * steps.stride_w - steps.padding_w;
  const int top = rest % s.out_height * steps.stride_h - steps.padding_h;
  const T* const image = x + static_cast<std::int64_t>(rest / s.out_height) * s.height * s.width;
  float sum[outputs_each];
  for (int j = 0; j < outputs_each; ++j) sum[j] = bias ? static_cast<float>(bias[first + j]) : 0.0f;
  for (int kh = 0; kh < steps.kernel_h; ++kh) {
    const int h = top + kh * steps.dilation_h;
    if (h < 0 || h >= s.height) continue;
    for (int kw = 0; kw < steps.kernel_w; ++kw) {
      const int w = left + kw * steps.dilation_w;
      const float v = w < 0 || w >= s.width ? 0.0f : static_cast<float>(image[h * s.width + w]);
      const float* const tap = taps + (kh * steps.kernel_w + kw) * outputs_each;
      for (int j = 0; j < outputs_each; ++j) sum[j] += v * tap[j];
    }
  }
  constexpr int lanes = static_cast<int>(16 / sizeof(T));
  for (int j = 0; j < outputs_each; j += lanes) {
    Numbers<float, lanes> some;
    for (int i = 0; i < lanes; ++i) some[i] = sum[j + i];
    store<lanes>(y + pixel * s.out_channels + first + j, some);
  }
}

constexpr int tile_floats = 11264;  // 44 KiB of shared memory
// More products than these are faster on the tensor cores. A large GPU adds them up in about 20 us.
constexpr std::int64_t most_products = std::int64_t{1} << 29;
constexpr std::int64_t most_bytes_of_parts = std::int64_t{64} << 20;

// A thread takes one channel of x and two of y, and every `slices`th row of a band of rows of an image. Its sums stay
// in registers while a window of x moves along a row, k columns at a time. The rows of both images are in shared
// memory, with zeros around x, and behind each row of y as far as the last k columns reach. When all rows are done,
// the sums of the slices take their place, so that a block adds them up and writes them once.
struct Bands {
  int rows, bands;        // rows of y in a band, bands of an image
  int columns;            // of a row of y, a multiple of k
  int pitch, grad_pitch;  // floats from one row to the next: so that threads of several rows use different banks
  int pairs, slices;      // pairs of one channel of x and two of y; `slices` threads take each of them
  TANDEM_HOST_DEVICE int floats_of_x(int k) const { return ((rows + k - 1) * pitch + 3) / 4 * 4; }
  int floats(int k) const { return floats_of_x(k) + rows * grad_pitch; }
};

// `count` rows of an image, starting at row `first`. Each becomes a line of `line` numbers, in which the numbers of the
// image begin at position `before`. The other numbers are 0. Rows outside the image are 0, too.
struct SomeRows {
  int first, count, line, before;
  int height, width;  // of the image; a row of it has `width` numbers
};

// A thread loads several packs before it stores the first.
template <int lanes, class T>
__device__ void load_band(const SomeRows& rows, const T* image, float* tile, int pitch) {
  constexpr int at_once = 8;
  const int packs = rows.line / lanes;
  for (int start = static_cast<int>(threadIdx.x); start < rows.count * packs; start += at_once * threads) {
    Numbers<float, lanes> some[at_once];
    TANDEM_UNROLL
    for (int u = 0; u < at_once; ++u) {
      const int i = start + u * threads, h = rows.first + i / packs, w = i % packs * lanes - rows.before;
      const bool is_inside = i < rows.count * packs && h >= 0 && h < rows.height && w >= 0 && w < rows.width;
      some[u] = is_inside ? load<lanes>(image + h * rows.width + w) : Numbers<float, lanes>{};
    }
    TANDEM_UNROLL
    for (int u = 0; u < at_once; ++u)
      if (const int i = start + u * threads; i < rows.count * packs)
        store<lanes>(tile + i / packs * pitch + i % packs * lanes, some[u]);
  }
}

template <class T, int k>
__global__ void __launch_bounds__(threads, 2)
    grad_weight_parts(Sizes s, Bands by, int padding, const T* x, const T* grad_y, float* parts) {
  TANDEM_SHARED(tile, tile_floats, float);
  const int image = static_cast<int>(blockIdx.x) / by.bands;
  const int first = static_cast<int>(blockIdx.x) % by.bands * by.rows;
  const int rows = by.rows < s.out_height - first ? by.rows : s.out_height - first;
  float* const grads = tile + by.floats_of_x(k);
  const SomeRows of_x{first - padding,      rows + k - 1, (by.columns + k - 1) * s.channels,
                      padding * s.channels, s.height,     s.width * s.channels};
  const T* const in = x + static_cast<std::int64_t>(image) * s.height * of_x.width;
  if (s.channels % 4 == 0) load_band<4>(of_x, in, tile, by.pitch);
  else load_band<1>(of_x, in, tile, by.pitch);
  const SomeRows of_y{first, rows, by.columns * s.out_channels, 0, s.out_height, s.out_width * s.out_channels};
  load_band<4>(of_y, grad_y + static_cast<std::int64_t>(image) * s.out_height * of_y.width, grads, by.grad_pitch);
  __syncthreads();
  const int slice = static_cast<int>(threadIdx.x) / by.pairs, pair = static_cast<int>(threadIdx.x) % by.pairs;
  const int c = pair % s.channels, o = pair / s.channels * 2;
  float sum[2][k][k] = {}, bias[2] = {};
  for (int row = slice < by.slices ? slice : rows; row < rows; row += by.slices) {
    const float* const grads_of_row = grads + row * by.grad_pitch + o;
    const float* const pixels = tile + row * by.pitch + c;
    float window[k][k];  // column number w of the row is in window[...][w % k]
    TANDEM_UNROLL
    for (int a = 0; a < k; ++a) {
      TANDEM_UNROLL
      for (int b = 0; b < k - 1; ++b) window[a][b] = pixels[a * by.pitch + b * s.channels];
    }
    for (int start = 0; start < by.columns; start += k) {
      TANDEM_UNROLL
      for (int u = 0; u < k; ++u) {
        TANDEM_UNROLL
        for (int a = 0; a < k; ++a)
          window[a][(u + k - 1) % k] = pixels[a * by.pitch + (start + u + k - 1) * s.channels];
        const auto two = load<2>(grads_of_row + (start + u) * s.out_channels);
        TANDEM_UNROLL
        for (int j = 0; j < 2; ++j) {
          const float g = two[j];
          bias[j] += g;
          TANDEM_UNROLL
          for (int a = 0; a < k; ++a) {
            TANDEM_UNROLL
            for (int b = 0; b < k; ++b) sum[j][a][b] += g * window[a][(u + b) % k];
          }
        }
      }
    }
  }
  const int weights = s.out_channels * k * k * s.channels, numbers = weights + s.out_channels;
  float* const part = parts + static_cast<std::int64_t>(blockIdx.x) * numbers;
  float* const sums = by.slices == 1 ? part : tile + slice * (numbers | 1);
  __syncthreads();
  if (slice < by.slices) {
    TANDEM_UNROLL
    for (int j = 0; j < 2; ++j) {
      TANDEM_UNROLL
      for (int a = 0; a < k; ++a) {
        TANDEM_UNROLL
        for (int b = 0; b < k; ++b) sums[((o + j) * k * k + a * k + b) * s.channels + c] = sum[j][a][b];
      }
      if (c == 0) sums[weights + o + j] = bias[j];
    }
  }
  if (by.slices == 1) return;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < numbers; i += threads) {
    float total = 0;
    for (int from = 0; from < by.slices; ++from) total += tile[from * (numbers | 1) + i];
    part[i] = total;
  }
}

template <class F>
bool with_float_of_32_or_16_bits(DType dtype, F f) {
  if (dtype == DType::f64) return false;
  dispatch_floating(dtype, "conv2d", [&](auto type) {
    if constexpr (sizeof(type) <= 4) f(type);
  });
  return true;
}

bool fits(const Array& images) {
  return images.numel() < std::int64_t{1} << 31 && is_aligned(static_cast<const float*>(images.raw()), 4);
}

}  // namespace

bool convolve_one_channel(const Array& x, const Array& weight, const Array* bias, const Window& window,
                          const Array& y) {
  if (x.dim(1) != 1 || y.dim(1) % outputs_each != 0 || y.dim(1) / outputs_each > 4 ||
      window.kernel.h * window.kernel.w > most_taps || !fits(x) || !fits(y))
    return false;
  const Sizes s(x, y);
  const std::int64_t pixels = y.numel() / y.dim(1);
  const dim3 grid(static_cast<unsigned>((pixels + threads - 1) / threads),
                  static_cast<unsigned>(s.out_channels / outputs_each));
  return with_float_of_32_or_16_bits(x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch(one_channel<T>, grid, dim3(threads), s, Steps(window), static_cast<const T*>(x.raw()),
           static_cast<const T*>(weight.raw()), bias ? static_cast<const T*>(bias->raw()) : nullptr,
           static_cast<T*>(y.raw()));
  });
}

bool few_channels_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                              const std::optional<Array>& grad_bias) {
  const std::int64_t k = window.kernel.h;
  const bool is_square = window.kernel.w == k && window.padding.h == window.padding.w;
  if (x.dtype() != grad_y.dtype() || !is_square || (k != 3 && k != 5) || window.stride != Extent(1) ||
      window.dilation != Extent(1) || window.groups != 1 || grad_y.dim(1) % 4 != 0 ||
      x.dim(1) * grad_y.dim(1) > 2 * threads || !fits(x) || !fits(grad_y) ||
      grad_y.numel() * x.dim(1) * k * k > most_products || !grad_weight.is_channels_last())
    return false;
  const Sizes s(x, grad_y);
  const auto taps = static_cast<int>(k), for_all = static_cast<int>((multiprocessors + s.images - 1) / s.images);
  Bands by{};
  by.columns = (s.out_width + taps - 1) / taps * taps;
  // Shared memory has 32 banks. A row of x is an odd number of floats or of packs of 4, and two rows of y lie half of
  // the banks apart.
  by.pitch = (by.columns + taps - 1) * s.channels | (s.channels % 4 == 0 ? 4 : 1);
  by.grad_pitch = by.columns * s.out_channels / 32 * 32 + 48;
  by.pairs = s.channels * s.out_channels / 2;
  by.rows = (s.out_height + for_all - 1) / for_all;  // so that all multiprocessors are busy
  while (by.rows > 0 && by.floats(taps) > tile_floats) --by.rows;
  if (by.rows < 1) return false;
  by.bands = (s.out_height + by.rows - 1) / by.rows;
  const std::int64_t columns = grad_weight.numel() + s.out_channels;
  const std::int64_t blocks = static_cast<std::int64_t>(s.images) * by.bands;
  by.slices = std::max(1, std::min({threads / by.pairs, by.rows, tile_floats / (static_cast<int>(columns) | 1)}));
  if (blocks * columns * static_cast<std::int64_t>(sizeof(float)) > most_bytes_of_parts) return false;
  const Array found = Array::empty({blocks, columns}, DType::f32, x.device());
  const bool done = with_float_of_32_or_16_bits(x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch(k == 3 ? grad_weight_parts<T, 3> : grad_weight_parts<T, 5>, dim3(static_cast<unsigned>(blocks)),
           dim3(threads), s, by, static_cast<int>(window.padding.h), static_cast<const T*>(x.raw()),
           static_cast<const T*>(grad_y.raw()), static_cast<float*>(found.raw()));
  });
  if (done) sum_parts(found, grad_weight, grad_bias);
  return done;
}

}  // namespace tandem::cuda

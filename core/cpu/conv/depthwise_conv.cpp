#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/depthwise_conv.h>
#include <tandem/core/cpu/conv/lanes.h>
#include <tandem/core/cpu/conv/rotated.h>
#include <tandem/core/cpu/conv/row_bands.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <numeric>

namespace tandem::cpu {

namespace {

// Vectors of an output row, and taps of a row of the kernel, whose sums fit into the registers for two rows.
constexpr int most_vectors = lanes == 16 ? 8 : 4, most_taps = most_vectors;

// Returns the number of vectors after which the assignment of channels to lanes repeats along a row.
std::int64_t phases_of(std::int64_t channels) { return std::lcm<std::int64_t>(channels, lanes) / lanes; }

// A kernel, arranged so that a vector of pixels can be multiplied by a vector of taps. Vector v of a row needs the taps
// of phase v % phases (phases_of). For each phase and each tap there is one number per lane: the tap of that lane's
// channel.
struct LaneKernel {
  std::int64_t channels, height, width, phases;
  Array taps, bias;  // (phases, height * width, lanes) and (phases, lanes)

  // Takes `weight` (C, 1, height, width) and `bias` (C).
  LaneKernel(const Array& weight, const std::optional<Array>& bias)
      : channels(weight.dim(0)),
        height(weight.dim(2)),
        width(weight.dim(3)),
        phases(phases_of(channels)),
        taps(Array::empty({phases, height * width, lanes})),
        bias(Array::zeros({phases, lanes})) {
    const Array w = weight.to(DType::f32).contiguous(), b = bias ? bias->to(DType::f32).contiguous() : Array();
    for (std::int64_t i = 0; i < phases * lanes; ++i) {
      const std::int64_t phase = i / lanes, lane = i % lanes, c = i % channels;
      for (std::int64_t k = 0; k < height * width; ++k)
        taps.data<float>()[(phase * height * width + k) * lanes + lane] = w.data<float>()[c * height * width + k];
      if (bias) this->bias.data<float>()[i] = b.data<float>()[c];
    }
  }
};

// The rows inside the image among those that two output rows read.
struct SeenRows {
  std::int64_t first, last;
};

// Computes the sums of `vectors` vectors, `step` apart, of two output rows. `seen` points to the numbers that the first
// vector reads through the kernel's first tap. Input rows are seen_step apart, and output rows out_step.
template <int vectors>
void sum_products(const LaneKernel& kernel, std::int64_t phase, const float* seen, std::int64_t seen_step,
                  SeenRows rows, std::int64_t step, float* out, std::int64_t out_step) {
  const std::int64_t channels = kernel.channels, kernel_row = kernel.width * lanes;
  const float* tap = kernel.taps.data<float>() + (phase * kernel.height + rows.first) * kernel_row;
  seen += rows.first * seen_step;
  const Lanes bias = load<lanes>(kernel.bias.data<float>() + phase * lanes);
  Lanes upper[vectors], lower[vectors];
  unroll<vectors>([&](auto v) __attribute__((always_inline)) { upper[v] = lower[v] = bias; });
  // Adds a row of the image. The upper output row reads it through the kernel's row `tap`, and the lower output row
  // through the previous row of the kernel.
  const auto add_row = [&](auto by_upper, auto by_lower) __attribute__((always_inline)) {
    const float* from = seen;
    for (std::int64_t w = 0; w < kernel_row; w += lanes, from += channels) {
      Lanes upper_tap, lower_tap;
      if constexpr (by_upper) upper_tap = load<lanes>(tap + w);
      if constexpr (by_lower) lower_tap = load<lanes>(tap - kernel_row + w);
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        Lanes pixels = load<lanes>(from + v * step);
        asm("" : "+v"(pixels));  // one load for both rows: GCC would load it twice
        if constexpr (by_upper) upper[v] += pixels * upper_tap;
        if constexpr (by_lower) lower[v] += pixels * lower_tap;
      });
    }
    seen += seen_step;
    tap += kernel_row;
  };
  std::int64_t h = rows.first;
  if (h == 0 && h < rows.last) {
    add_row(std::true_type{}, std::false_type{});
    ++h;
  }
  for (; h < std::min(kernel.height, rows.last); ++h) add_row(std::true_type{}, std::true_type{});
  if (h < rows.last) add_row(std::false_type{}, std::true_type{});
  unroll<vectors>([&](auto v) __attribute__((always_inline)) {
    store<lanes>(out + v * step, upper[v]);
    store<lanes>(out + out_step + v * step, lower[v]);
  });
}

template <class From, class To>
void copy_row(const From* from, std::int64_t count, To* to) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store<lanes>(to + i, load<lanes>(from + i));
  for (; i < count; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
}

// The input of a band. Copy h in `copies` is of the row that is h rows below the first input row, in f32 and with its
// padding. Copies [begin, end) are inside the image. The others are padding and unused.
struct SeenBand : RowBand {
  std::int64_t worker, begin, end;
  float *copies, *room;  // `room` is extra memory for the caller
};

// The bands of a convolution, with their inputs.
struct SeenBands {
  const Window& window;
  RowBands bands;
  std::int64_t images, channels, height, out_height;
  std::int64_t row, out_row;  // numbers in a row of the image, and in a row of outputs
  std::int64_t phases, vectors;
  std::int64_t seen_row;  // from one copy to the next

  SeenBands(const Window& window, const Array& x, const Array& y)
      : window(window),
        bands(window, y.shape()),
        images(x.dim(0)),
        channels(x.dim(1)),
        height(x.dim(2)),
        out_height(y.dim(2)),
        row(x.dim(3) * channels),
        out_row(y.dim(3) * channels),
        phases(phases_of(channels)),
        vectors((out_row + lanes - 1) / lanes) {
    // Rows include their padding, and the numbers that the last vector reads beyond the end.
    const std::int64_t most_read = vectors * lanes + (window.kernel.w - 1) * channels;
    seen_row = spread(padded(std::max(before() + row, most_read)));
  }
  std::int64_t before() const { return window.padding.w * channels; }
  std::int64_t workers() const { return std::min<std::int64_t>(omp_get_max_threads(), bands.count()); }
  std::int64_t vectors_of(std::int64_t phase) const { return (vectors - phase + phases - 1) / phases; }

  // Calls f(band) for each band of x. The band has `room` numbers of its worker's memory.
  template <class T, class F>
  void for_each(const Array& x, std::int64_t room, F f) const {
    const std::int64_t copied = (window.kernel.h + RowBands::most_rows - 1) * seen_row;
    const Array memory = Array::zeros({workers(), copied + room});
    const std::int64_t products = out_height * out_row * images * window.kernel.h * window.kernel.w;
    share(workers(), bands.count(), products, [&](std::int64_t worker, std::int64_t i) {
      const RowBand band = bands[i];
      // Rows are computed in pairs, so an odd number is rounded up.
      const std::int64_t seen = (band.rows + 1) / 2 * 2 + window.kernel.h - 1;
      const std::int64_t begin = std::clamp<std::int64_t>(-band.top, 0, seen);
      const std::int64_t end = std::clamp(height - band.top, begin, seen);
      float* const copies = memory.data<float>() + worker * memory.dim(1);
      for (std::int64_t h = begin; h < end; ++h)
        copy_row(static_cast<const T*>(x.raw()) + (band.image * height + band.top + h) * row, row,
                 copies + h * seen_row + before());
      f(SeenBand{band, worker, begin, end, copies, copies + copied});
    });
  }
};

template <class T>
void convolve(const Array& x, const LaneKernel& kernel, const Window& window, const Array& y) {
  const SeenBands bands(window, x, y);
  const std::int64_t out_row = bands.out_row, sums_row = bands.vectors * lanes, step = bands.phases * lanes;
  bands.for_each<T>(x, RowBands::most_rows * sums_row, [&](const SeenBand& band) {
    T* const out = static_cast<T*>(y.raw()) + (band.image * bands.out_height + band.first) * out_row;
    float *const sums = band.room, *to = sums;
    if constexpr (std::is_same_v<T, float>) {
      // Whole vectors and rows are written directly to the image.
      if (out_row % lanes == 0 && band.rows % 2 == 0) to = out;
    }
    for (std::int64_t phase = 0; phase < std::min(bands.phases, bands.vectors); ++phase) {
      for_each_part<most_vectors>(bands.vectors_of(phase), [&](auto part, std::int64_t first_vector) {
        const std::int64_t at = (phase + first_vector * bands.phases) * lanes;
        for (std::int64_t r = 0; r < band.rows; r += 2) {
          const std::int64_t from = std::clamp<std::int64_t>(band.begin - r, 0, kernel.height + 1);
          const SeenRows seen{from, std::clamp(band.end - r, from, kernel.height + 1)};
          sum_products<part>(kernel, phase, band.copies + r * bands.seen_row + at, bands.seen_row, seen, step,
                             to + r * sums_row + at, sums_row);
        }
      });
    }
    if (to != sums) return;
    for (std::int64_t r = 0; r < band.rows; ++r) copy_row(sums + r * sums_row, out_row, out + r * out_row);
  });
}

void convolve(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
              const Array& y) {
  const LaneKernel kernel(weight, bias);
  if (x.dtype() == DType::bf16) convolve<bfloat16>(x, kernel, window, y);
  else convolve<float>(x, kernel, window, y);
}

// Rows of the outputs' gradient, and of the image rows that they read through one row of the kernel. Rows first, first
// + 2 and so on of the gradient are upper rows. The row after each upper row is its lower row. It reads the same image
// row through the previous row of the kernel.
struct SeenPairs {
  const float *gradient, *seen;
  std::int64_t gradient_step, seen_step, first, last;
};

// Adds up products of vectors of the gradient, `count` per row and `step` apart, with the pixels that they read through
// the first of some `taps`, through the second, and so on. `lanes_of_last` is the number of valid lanes in the last
// vector.
template <int taps, bool by_upper, bool by_lower>
void sum_products_of(const SeenPairs& rows, std::int64_t channels, std::int64_t count, std::int64_t step,
                     std::int64_t lanes_of_last, float* upper_sums, float* lower_sums) {
  Lanes upper[taps], lower[taps];
  unroll<taps>([&](auto k) __attribute__((always_inline)) { upper[k] = lower[k] = Lanes{}; });
  for (std::int64_t r = rows.first; r < rows.last; r += 2) {
    const float* gradient = rows.gradient + r * rows.gradient_step;
    const float* seen = rows.seen + r * rows.seen_step;
    const auto add = [&](auto load) __attribute__((always_inline)) {
      Lanes by[2];
      if constexpr (by_upper) by[0] = load(gradient);
      if constexpr (by_lower) by[1] = load(gradient + rows.gradient_step);
      unroll<taps>([&](auto k) __attribute__((always_inline)) {
        Lanes pixels = load(seen + k * channels);
        asm("" : "+v"(pixels));  // one load for both rows: GCC would load it twice
        if constexpr (by_upper) upper[k] += by[0] * pixels;
        if constexpr (by_lower) lower[k] += by[1] * pixels;
      });
      gradient += step;
      seen += step;
    };
    const std::int64_t whole = lanes_of_last == lanes ? count : count - 1;
    for (std::int64_t v = 0; v < whole; ++v) add([](const float* from) { return load<lanes>(from); });
    if (whole < count) add([&](const float* from) { return load_some<lanes>(from, lanes_of_last); });
  }
  const auto put = [](float* to, Lanes sum) { store<lanes>(to, load<lanes>(to) + sum); };
  unroll<taps>([&](auto k) __attribute__((always_inline)) {
    if constexpr (by_upper) put(upper_sums + k * lanes, upper[k]);
    if constexpr (by_lower) put(lower_sums + k * lanes, lower[k]);
  });
}

// Returns for each worker the sums of the weight's gradient, in the layout of LaneKernel's taps: (workers, phases,
// height, width, lanes).
template <class T>
Array sum_gradients(const Array& x, const Array& grad_y, const Window& window) {
  const SeenBands bands(window, x, grad_y);
  const std::int64_t channels = bands.channels, out_row = bands.out_row, phases = bands.phases, step = phases * lanes;
  const std::int64_t vectors = bands.vectors, kernel_row = window.kernel.w * lanes;
  const Array sums = Array::zeros({bands.workers(), phases, window.kernel.h, window.kernel.w, lanes});
  bands.for_each<T>(x, RowBands::most_rows * out_row, [&](const SeenBand& band) {
    const std::int64_t rows = band.rows;
    float* const gradient = band.room;
    copy_row(static_cast<const T*>(grad_y.raw()) + (band.image * bands.out_height + band.first) * out_row,
             rows * out_row, gradient);
    for (std::int64_t phase = 0; phase < std::min(phases, vectors); ++phase) {
      const std::int64_t count = bands.vectors_of(phase), at = phase * lanes;
      const bool has_last = phase + (count - 1) * phases == vectors - 1;
      const std::int64_t lanes_of_last = has_last ? out_row - (vectors - 1) * lanes : lanes;
      float* const to = sums.data<float>() + (band.worker * phases + phase) * window.kernel.h * kernel_row;
      for (std::int64_t h = 0; h <= window.kernel.h; ++h) {
        const std::int64_t from = (std::max<std::int64_t>(band.begin - h, 0) + 1) / 2 * 2;
        const std::int64_t until = std::min(rows, band.end - h), pairs = std::min(until, rows - 1);
        for_each_part<most_taps>(window.kernel.w, [&](auto taps, std::int64_t w) {
          const auto run = [&](auto by_upper, auto by_lower, std::int64_t begin, std::int64_t end) {
            const SeenPairs seen{gradient + at, band.copies + h * bands.seen_row + at + w * channels,
                                 out_row,       bands.seen_row,
                                 begin,         end};
            float* const upper_sums = to + h * kernel_row + w * lanes;
            float* const lower_sums = h > 0 ? upper_sums - kernel_row : nullptr;
            sum_products_of<taps, by_upper, by_lower>(seen, channels, count, step, lanes_of_last, upper_sums,
                                                      lower_sums);
          };
          constexpr std::true_type yes;
          constexpr std::false_type no;
          if (h == 0) return run(yes, no, from, until);
          if (h == window.kernel.h) return run(no, yes, from, pairs);
          run(yes, yes, from, pairs);
          // If the number of rows is odd, no row follows the last one.
          if (rows % 2 != 0 && until == rows) run(yes, no, std::max(from, rows - 1), rows);
        });
      }
    }
  });
  return sums;
}

// Returns whether this method is faster than oneDNN. The kernel needs at least `enough` taps if the channels fill
// oneDNN's vectors, and at least 9 otherwise. bench/convolutions found the two values of `enough` with AVX-512:
// enough_for_sums (the outputs and the gradient of the input) on an AMD EPYC (Zen 4), enough_for_weight on an Intel
// Xeon.
constexpr std::int64_t enough_for_sums = 26, enough_for_weight = 10;
bool is_faster(const Window& window, std::int64_t enough) {
  return window.kernel.h * window.kernel.w >= (window.groups % lanes == 0 ? enough : 9);
}

}  // namespace

bool DepthwiseConv::pays() const {
  const Window& window = layer_.window;
  if ((layer_.dtype != DType::f32 && layer_.dtype != DType::bf16) || !layer_.has_one_dtype_of_images()) return false;
  if (window.groups != layer_.x[1] || layer_.x[1] != layer_.y[1] || layer_.x[1] == 1) return false;
  if (window.stride != Extent(1) || window.dilation != Extent(1)) return false;
  switch (layer_.pass) {
    case ConvPass::outputs: return is_faster(window, enough_for_sums);
    case ConvPass::input_gradient: return is_faster(window, enough_for_sums) && can_rotate(window);
    case ConvPass::weight_gradient: return is_faster(window, enough_for_weight);
    default: return false;
  }
}

void DepthwiseConv::run(const ConvArrays& a) {
  if (layer_.pass == ConvPass::outputs) return convolve(a.x, a.weight, a.bias, layer_.window, a.y);
  if (layer_.pass == ConvPass::input_gradient)
    return convolve(a.y, rotated(a.weight), std::nullopt, rotated(layer_.window), a.grad_x);
  const Array sums = a.x.dtype() == DType::bf16 ? sum_gradients<bfloat16>(a.x, a.y, layer_.window)
                                                : sum_gradients<float>(a.x, a.y, layer_.window);
  // Read worker by worker, phase by phase and lane by lane, the lanes belong to the channels 0, 1, ..., C - 1, 0, 1,
  // ... in turn. With the taps moved inside the lanes, the sums are therefore rows of whole weights, which are added.
  const std::int64_t numbers = a.grad_weight.numel();
  const Array total = Array::empty(a.grad_weight.shape()), rows = sums.reshape({-1, numbers / a.x.dim(1), lanes});
  backend({}).reduce(Reduction::sum, rows.permute({0, 2, 1}).reshape({-1, numbers}), total.reshape({1, -1}));
  backend({}).copy(total, a.grad_weight);
  sum_bias(a);
}

}  // namespace tandem::cpu

#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/blocks.h>
#include <tandem/core/cpu/conv/channels_last_image.h>
#include <tandem/core/cpu/conv/cook_toom_scheme.h>
#include <tandem/core/cpu/conv/one_channel_conv.h>
#include <tandem/core/device/math_mode.h>

#include <algorithm>
#include <vector>

namespace tandem::cpu {

namespace {

using Tile = CookToom<4, 5>;
constexpr std::int64_t m = Tile::m, n = Tile::n, taps = Tile::r;
constexpr std::int64_t most_tiles = 32, most_seen = 64;  // per part
// The distances, in numbers, from one place of a tile to the next, and from tile to tile. A place is a point at which a
// tile is evaluated (cook_toom.h).
constexpr std::int64_t next_place = most_seen, next_tile = n * next_place;

// Some rows of outputs of an image, and some tiles of those rows.
struct Part {
  std::int64_t image, row, rows, tile, tiles;
};

// Returns the outputs of all images, divided into parts of nearly equal size whose numbers fit into the second-level
// cache.
std::vector<Part> parts_of(const Shape& y) {
  const std::int64_t tiles = (y[3] + m - 1) / m, most_rows = most_seen - (taps - 1);
  const std::int64_t down = (y[2] + most_rows - 1) / most_rows, across = (tiles + most_tiles - 1) / most_tiles;
  std::vector<Part> parts;
  for (std::int64_t image = 0; image < y[0]; ++image)
    for (std::int64_t i = 0; i < down; ++i)
      for (std::int64_t j = 0; j < across; ++j) {
        const std::int64_t row = y[2] * i / down, tile = tiles * j / across;
        parts.push_back({image, row, y[2] * (i + 1) / down - row, tile, tiles * (j + 1) / across - tile});
      }
  return parts;
}

// The image rows that a part reads, at the places of its tiles: number i of place p of tile t belongs to row i of these
// rows.
class PlacedRows {
 public:
  PlacedRows(const ChannelsLastImage& image, Extent padding, float* memory)
      : image_(image), padding_(padding), transposed_(memory), places_(memory + most_pixels * most_seen) {}
  static constexpr std::int64_t numbers() { return (most_pixels + most_tiles * n) * most_seen; }

  void place(const Part& part) {
    const std::int64_t seen = part.rows + taps - 1, pixels = part.tiles * m + taps - 1;
    const std::int64_t top = part.row - padding_.h, left = part.tile * m - padding_.w;
    const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, pixels);
    const std::int64_t end = std::clamp<std::int64_t>(image_.width - left, begin, pixels);
    std::fill_n(transposed_, pixels * most_seen, 0.0f);
    const auto turn = [&](auto type) {
      for (std::int64_t i = std::max<std::int64_t>(-top, 0); i < std::min(seen, image_.height - top); ++i) {
        const auto* const row = reinterpret_cast<const decltype(type)*>(image_.row(part.image, top + i));
        for (std::int64_t k = begin; k < end; ++k)
          transposed_[k * most_seen + i] = static_cast<float>(row[(left + k) * image_.next]);
      }
    };
    if (image_.dtype == DType::bf16) turn(bfloat16{});
    else turn(float{});
    scheme<4, 5>.input({transposed_, most_seen}, {places_, next_place, next_tile}, {1, part.tiles, padded(seen)});
  }
  const float* tile(std::int64_t t) const { return places_ + t * next_tile; }

 private:
  static constexpr std::int64_t most_pixels = most_tiles * m + taps - 1;
  const ChannelsLastImage& image_;
  const Extent padding_;
  float *transposed_, *places_;
};

// The sums for a vector of output channels: the products for each row of the kernel and each place, and the gradient.
struct Sums {
  Lanes products[taps][n], gradient;
};

// The weight (outputs, 1, 5, 5) at its places, for each vector of output channels.
struct PlacedTaps {
  Lanes at[taps][n];
};
std::vector<PlacedTaps> placed_weight(const Array& weight) {
  const Array w = weight.to(DType::f32).contiguous();
  std::vector<PlacedTaps> places(static_cast<std::size_t>(w.dim(0) / lanes));
  const float* from = w.data<float>();
  for (PlacedTaps& vector : places) {
    Lanes all[taps][taps];
    for (int c = 0; c < lanes; ++c)
      for (int h = 0; h < taps; ++h)
        for (int k = 0; k < taps; ++k) all[h][k][c] = *from++;
    for (int h = 0; h < taps; ++h) multiply<Tile::Kernel>(factors_of<Tile::Kernel>(), all[h], vector.at[h]);
  }
  return places;
}

// Computes the outputs of one tile in some neighbouring rows. `at` points to the first of the tile's places for them.
template <int rows>
[[gnu::always_inline]] inline void outputs_of(const float* at, const PlacedTaps& weight, Lanes (&y)[rows][m]) {
  // GCC would keep an address for each number in a tile, and spill most of them.
  asm("" : "+r"(at));
  Lanes products[rows][n] = {};
#pragma GCC unroll 5
  for (int h = 0; h < taps; ++h)
#pragma GCC unroll 8
    for (int p = 0; p < n; ++p) {
      Lanes w = weight.at[h][p];
      asm("" : "+v"(w));  // one register for all rows
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r) products[r][p] += at[p * next_place + h + r] * w;
    }
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    multiply_transposed<Tile::Output>(factors_of<Tile::Output>(), products[r], y[r]);
  });
}

// Computes the outputs of a part in some neighbouring rows, starting at row `i` of the part. `to` is the first pixel of
// row i.
template <int rows, class T>
void convolve_rows(const PlacedRows& seen, const Part& part, std::int64_t i, const PlacedTaps& weight, Lanes bias,
                   std::int64_t width, T* to, std::int64_t next, std::int64_t next_row) {
  const float* at = seen.tile(0) + i;
  for (std::int64_t t = 0; t < part.tiles; ++t, at += next_tile, to += m * next) {
    Lanes y[rows][m];
    outputs_of<rows>(at, weight, y);
    const std::int64_t pixels = width - (part.tile + t) * m;
#pragma GCC unroll 2
    for (int r = 0; r < rows; ++r) {
      T* const row = to + r * next_row;
      if (pixels >= m) {
#pragma GCC unroll 4
        for (int k = 0; k < m; ++k) store<lanes>(row + k * next, y[r][k] + bias);
      } else {
        for (std::int64_t k = 0; k < pixels; ++k) store<lanes>(row + k * next, y[r][k] + bias);
      }
    }
  }
}

// The gradient of a tile's outputs, in all rows of a part, at the tile's places.
struct PlacedGradient {
  // With AVX-512, places 64 rows apart would be 4 KiB apart, and evict each other from the first-level cache.
  Lanes at[n][most_seen + 1];

  // Returns the sum of the pixels. Zeros follow the `pixels` pixels that each row of the tile has.
  template <class T>
  Lanes place(const T* from, std::int64_t next, std::int64_t next_row, std::int64_t pixels, std::int64_t rows) {
    const auto place_rows = [&](auto load_pixel) __attribute__((always_inline)) {
      Lanes sum{};
      for (std::int64_t i = 0; i < rows; ++i, from += next_row) {
        Lanes in[m], out[n];
        unroll<m>([&](auto k) __attribute__((always_inline)) { in[k] = load_pixel(k); });
        multiply<Tile::Output>(factors_of<Tile::Output>(), in, out);
        unroll<n>([&](auto p) __attribute__((always_inline)) { at[p][i] = out[p]; });
        sum += (in[0] + in[1]) + (in[2] + in[3]);
      }
      return sum;
    };
    if (pixels >= m)
      return place_rows([&](int k) __attribute__((always_inline)) { return load<lanes>(from + k * next); });
    return place_rows([&](int k) { return k < pixels ? load<lanes>(from + k * next) : Lanes{}; });
  }
};

// Multiplies `rows` rows of a tile by the rows of its gradient, and adds the products to `sums`. The sums over these
// rows are computed first and then added to the other sums, because two levels keep errors small.
void add_products(const float* tile, const PlacedGradient& gradient, std::int64_t rows, Sums& sums) {
  constexpr int places = 2;  // at once, so no sum waits for the previous one
  for (std::int64_t p = 0; p < n; p += places, tile += places * next_place) {
    Lanes found[places][taps] = {};
    for (std::int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int q = 0; q < places; ++q) {
        Lanes g = gradient.at[p + q][i];
        asm("" : "+v"(g));
#pragma GCC unroll 5
        for (int h = 0; h < taps; ++h) found[q][h] += tile[q * next_place + i + h] * g;
      }
    }
    for (int q = 0; q < places; ++q)
      for (int h = 0; h < taps; ++h) sums.products[h][p + q] += found[q][h];
  }
}

// Calls f(T{}, worker, part, its input) for all parts of y, which is of type T.
template <class F>
void share_parts(const Array& x, const Array& y, const Window& window, F f) {
  const std::vector<Part> parts = parts_of(y.shape());
  const auto count = static_cast<std::int64_t>(parts.size()), workers = std::min(Blocks::threads(), count);
  const Array memory = Array::empty({workers, PlacedRows::numbers()});
  const ChannelsLastImage image(x);
  share(workers, count, y.numel(), [&](std::int64_t worker, std::int64_t i) {
    const Part& part = parts[static_cast<std::size_t>(i)];
    PlacedRows seen(image, window.padding, memory.data<float>() + worker * memory.dim(1));
    seen.place(part);
    if (y.dtype() == DType::bf16) f(bfloat16{}, worker, part, seen);
    else f(float{}, worker, part, seen);
  });
}

// Returns the first pixel of a part, in some channels.
template <class T>
T* first_pixel(const ChannelsLastImage& image, const Part& part, std::int64_t vector) {
  return reinterpret_cast<T*>(image.row(part.image, part.row)) + part.tile * m * image.next + vector * lanes;
}

}  // namespace

bool OneChannelConv::pays() const {
  const auto& [kernel, stride, padding, dilation, groups] = layer_.window;
  return (layer_.pass == ConvPass::outputs || layer_.pass == ConvPass::weight_gradient) &&
         (layer_.dtype == DType::f32 || layer_.dtype == DType::bf16) && layer_.has_one_dtype_of_images() &&
         layer_.x[1] == 1 && layer_.y[1] % lanes == 0 && groups == 1 && kernel == Extent(taps) && stride == Extent(1) &&
         dilation == Extent(1) && !math_mode().exact_convolutions;
}

void OneChannelConv::run(const ConvArrays& a) {
  if (layer_.pass == ConvPass::outputs) convolve(a.x, a.weight, a.bias, a.y);
  else sum_weight(a.x, a.y, a.grad_weight, a.grad_bias);
}

void OneChannelConv::convolve(const Array& x, const Array& weight, const std::optional<Array>& bias,
                              const Array& y) const {
  const std::vector<PlacedTaps> taps_at_places = placed_weight(weight);
  const Array biases = bias ? bias->to(DType::f32).contiguous() : Array();
  const ChannelsLastImage image(y);
  share_parts(x, y, layer_.window, [&](auto type, std::int64_t, const Part& part, const PlacedRows& seen) {
    using T = decltype(type);
    const std::int64_t next_row = image.row_bytes / static_cast<std::int64_t>(sizeof(T));
    for (std::size_t v = 0; v < taps_at_places.size(); ++v) {
      const auto channel = static_cast<std::int64_t>(v) * lanes;
      const Lanes added = bias ? load<lanes>(biases.data<float>() + channel) : Lanes{};
      T* to = first_pixel<T>(image, part, static_cast<std::int64_t>(v));
      std::int64_t i = 0;
      for (; i + 2 <= part.rows; i += 2, to += 2 * next_row)
        convolve_rows<2>(seen, part, i, taps_at_places[v], added, layer_.y[3], to, image.next, next_row);
      if (i < part.rows)
        convolve_rows<1>(seen, part, i, taps_at_places[v], added, layer_.y[3], to, image.next, next_row);
    }
  });
}

void OneChannelConv::sum_weight(const Array& x, const Array& grad_y, const Array& grad_weight,
                                const std::optional<Array>& grad_bias) const {
  const std::int64_t vectors = layer_.y[1] / lanes;
  std::vector<Sums> sums(static_cast<std::size_t>(Blocks::threads() * vectors));  // for each worker
  const ChannelsLastImage image(grad_y);
  share_parts(x, grad_y, layer_.window, [&](auto type, std::int64_t worker, const Part& part, const PlacedRows& seen) {
    using T = decltype(type);
    const std::int64_t next_row = image.row_bytes / static_cast<std::int64_t>(sizeof(T));
    PlacedGradient placed;
    for (std::int64_t v = 0; v < vectors; ++v) {
      Sums& mine = sums[static_cast<std::size_t>(worker * vectors + v)];
      const T* from = first_pixel<T>(image, part, v);
      for (std::int64_t t = 0; t < part.tiles; ++t, from += m * image.next) {
        mine.gradient += placed.place(from, image.next, next_row, layer_.y[3] - (part.tile + t) * m, part.rows);
        add_products(seen.tile(t), placed, part.rows, mine);
      }
    }
  });
  const Array weight = Array::empty(grad_weight.shape()), bias = Array::empty({layer_.y[1]});
  float* to = weight.data<float>();
  for (std::int64_t v = 0; v < vectors; ++v) {
    Sums& total = sums[static_cast<std::size_t>(v)];
    for (std::size_t other = static_cast<std::size_t>(v + vectors); other < sums.size(); other += vectors) {
      total.gradient += sums[other].gradient;
      for (int h = 0; h < taps; ++h)
        for (int p = 0; p < n; ++p) total.products[h][p] += sums[other].products[h][p];
    }
    store<lanes>(bias.data<float>() + v * lanes, total.gradient);
    Lanes all[taps][taps];
    for (int h = 0; h < taps; ++h)
      multiply_transposed<Tile::Kernel>(factors_of<Tile::Kernel>(), total.products[h], all[h]);
    for (int c = 0; c < lanes; ++c)
      for (int h = 0; h < taps; ++h)
        for (int k = 0; k < taps; ++k) *to++ = all[h][k][c];
  }
  backend({}).copy(weight, grad_weight);
  if (grad_bias) backend({}).copy(bias, *grad_bias);
}

}  // namespace tandem::cpu

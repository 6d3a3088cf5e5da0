#include <tandem/core/cpu/channel_blocks.h>
#include <tandem/core/cpu/conv2d_winograd.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

namespace {

constexpr int places = 16;  // places in a tile of 4 x 4
constexpr int taps = 9;

// An axis of an image, cut into tiles. A tile has two outputs, `dilation` apart, and the four inputs that they see.
struct Axis {
  std::int64_t outputs, dilation, padding;

  std::int64_t tiles() const {
    return outputs / (2 * dilation) * dilation + std::min(outputs % (2 * dilation), dilation);
  }
  std::int64_t output(std::int64_t tile, int i) const {
    return tile / dilation * (2 * dilation) + tile % dilation + i * dilation;
  }
  std::int64_t input(std::int64_t tile, int i) const { return output(tile, i) - padding; }
};

// Some rows of tiles. Rows are counted through all images.
struct Lines {
  std::int64_t first, count;
};

struct Tiling {
  std::int64_t images;
  Axis rows, columns;

  Tiling(const Shape& outputs, Extent dilation, Extent padding)
      : images(outputs[0]), rows{outputs[2], dilation.h, padding.h}, columns{outputs[3], dilation.w, padding.w} {}
  std::int64_t tiles() const { return images * rows.tiles() * columns.tiles(); }
  std::int64_t tiles(const Lines& lines) const { return lines.count * columns.tiles(); }
};

// The addresses of the n x n pixels of a tile, row by row; null for pixels outside of the image.
template <int n>
using Pixels = std::array<float*, n * n>;

// Calls f(number, pixels) for each tile of these lines; tiles are numbered from 0. `pixels` are the tile's 4 x 4 inputs
// when `image` is the input (n = 4), or its 2 x 2 outputs when `image` is the output (n = 2).
template <int n, class F>
void for_each_tile(const Tiling& tiling, const Lines& lines, const Array& image, F f) {
  const std::int64_t channels = image.dim(1), height = image.dim(2), width = image.dim(3);
  const auto place = [](const Axis& axis, std::int64_t tile, int i) {
    return n == 4 ? axis.input(tile, i) : axis.output(tile, i);
  };
  parallel_for(lines.count, places * tiling.tiles(lines) * channels, [&](std::int64_t line) {
    const std::int64_t number = (lines.first + line) / tiling.rows.tiles();
    const std::int64_t row = (lines.first + line) % tiling.rows.tiles();
    float* const first = static_cast<float*>(image.raw()) + number * height * width * channels;
    for (std::int64_t column = 0; column < tiling.columns.tiles(); ++column) {
      Pixels<n> pixels{};
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
          const std::int64_t h = place(tiling.rows, row, i), w = place(tiling.columns, column, j);
          if (0 <= h && h < height && 0 <= w && w < width) pixels[i * n + j] = first + (h * width + w) * channels;
        }
      f(line * tiling.columns.tiles() + column, pixels);
    }
  });
}

// The paper's matrices, applied to one row or column of a tile. Its `from` elements, which may be vectors, lie `step`
// apart.
struct InputTransform {  // B^T
  static constexpr int from = 4, to = 4;
  template <class V>
  static void apply(const V* d, int step, V* r, int r_step) {
    r[0] = d[0] - d[2 * step];
    r[r_step] = d[step] + d[2 * step];
    r[2 * r_step] = d[2 * step] - d[step];
    r[3 * r_step] = d[step] - d[3 * step];
  }
};
struct OutputTransform {  // A^T
  static constexpr int from = 4, to = 2;
  template <class V>
  static void apply(const V* m, int step, V* r, int r_step) {
    r[0] = m[0] + m[step] + m[2 * step];
    r[r_step] = m[step] - m[2 * step] - m[3 * step];
  }
};
struct OutputTransformGrad {  // A
  static constexpr int from = 2, to = 4;
  template <class V>
  static void apply(const V* y, int step, V* r, int r_step) {
    r[0] = y[0];
    r[r_step] = y[0] + y[step];
    r[2 * r_step] = y[0] - y[step];
    r[3 * r_step] = -y[step];
  }
};
struct WeightTransform {  // G
  static constexpr int from = 3, to = 4;
  template <class V>
  static void apply(const V* g, int step, V* r, int r_step) {
    const V outer = 0.5f * (g[0] + g[2 * step]), middle = 0.5f * g[step];
    r[0] = g[0];
    r[r_step] = outer + middle;
    r[2 * r_step] = outer - middle;
    r[3 * r_step] = g[2 * step];
  }
};
struct TurnedWeightTransform {  // G, for the kernel turned by half a turn
  static constexpr int from = 3, to = 4;
  template <class V>
  static void apply(const V* g, int step, V* r, int r_step) {
    WeightTransform::apply(g + 2 * step, -step, r, r_step);
  }
};
struct WeightTransformGrad {  // G^T
  static constexpr int from = 4, to = 3;
  template <class V>
  static void apply(const V* u, int step, V* r, int r_step) {
    const V sum = 0.5f * (u[step] + u[2 * step]);
    r[0] = u[0] + sum;
    r[r_step] = 0.5f * (u[step] - u[2 * step]);
    r[2 * r_step] = sum + u[3 * step];
  }
};

// Applies a transform to both dimensions of a square.
template <class Transform, class V>
std::array<V, Transform::to * Transform::to> transform(const std::array<V, Transform::from * Transform::from>& square) {
  std::array<V, Transform::to * Transform::from> columns;
  std::array<V, Transform::to * Transform::to> result;
  for (int i = 0; i < Transform::from; ++i) Transform::apply(&square[i], Transform::from, &columns[i], Transform::from);
  for (int i = 0; i < Transform::to; ++i)
    Transform::apply(&columns[i * Transform::from], 1, &result[i * Transform::to], 1);
  return result;
}

// Transforms the tiles of an image (N, C, H, W) into (16, tiles, channels): one matrix for each place of a tile.
template <class Transform>
Array to_places(const Tiling& tiling, const Lines& lines, const Array& image) {
  const std::int64_t tiles = tiling.tiles(lines), channels = image.dim(1);
  const Array result = Array::empty({places, tiles, channels});
  float* const to = static_cast<float*>(result.raw());
  for_each_tile<Transform::from>(tiling, lines, image, [&](std::int64_t tile, const auto& pixels) {
    cover_channels<float>(channels, [&](auto lanes, std::int64_t c) {
      std::array<vec<float, lanes>, Transform::from * Transform::from> square;
      for (std::size_t p = 0; p < square.size(); ++p)
        square[p] = pixels[p] ? load<lanes>(pixels[p] + c) : vec<float, lanes>{};
      const auto sums = transform<Transform>(square);
      for (int p = 0; p < places; ++p) store<lanes>(to + (p * tiles + tile) * channels + c, sums[p]);
    });
  });
  return result;
}

// Transforms (16, tiles, channels) into tiles of an image (N, C, H, W), and adds the bias.
void from_places(const Tiling& tiling, const Lines& lines, const Array& products, const float* bias,
                 const Array& image) {
  const std::int64_t tiles = tiling.tiles(lines), channels = image.dim(1);
  const auto* const from = static_cast<const float*>(products.raw());
  for_each_tile<2>(tiling, lines, image, [&](std::int64_t tile, const auto& pixels) {
    cover_channels<float>(channels, [&](auto lanes, std::int64_t c) {
      std::array<vec<float, lanes>, places> sums;
      for (int p = 0; p < places; ++p) sums[p] = load<lanes>(from + (p * tiles + tile) * channels + c);
      const auto outputs = transform<OutputTransform>(sums);
      const auto added = bias ? load<lanes>(bias + c) : vec<float, lanes>{};
      for (std::size_t p = 0; p < outputs.size(); ++p)
        if (pixels[p]) store<lanes>(pixels[p] + c, outputs[p] + added);
    });
  });
}

// Applies a transform to the squares of A * B kernels: (from * from, A, B) -> (to * to, A, B).
template <class Transform>
Array transform_matrices(const Array& matrices) {
  const std::int64_t numbers = matrices.dim(1) * matrices.dim(2);
  const Array result = Array::empty({Transform::to * Transform::to, matrices.dim(1), matrices.dim(2)});
  const auto* const from = static_cast<const float*>(matrices.raw());
  float* const to = static_cast<float*>(result.raw());
  constexpr std::int64_t block = 1024;  // numbers that a thread takes at a time
  parallel_for((numbers + block - 1) / block, matrices.numel(), [&](std::int64_t b) {
    cover_channels<float>(std::min(block, numbers - b * block), [&](auto lanes, std::int64_t i) {
      i += b * block;
      std::array<vec<float, lanes>, Transform::from * Transform::from> square;
      for (std::size_t p = 0; p < square.size(); ++p)
        square[p] = load<lanes>(from + static_cast<std::int64_t>(p) * numbers + i);
      const auto sums = transform<Transform>(square);
      for (std::size_t p = 0; p < sums.size(); ++p)
        store<lanes>(to + static_cast<std::int64_t>(p) * numbers + i, sums[p]);
    });
  });
  return result;
}

// (A, B, 3, 3) -> (9, A, B)
Array taps_first(const Array& weight) {
  return weight.to(DType::f32).permute({2, 3, 0, 1}).contiguous().reshape({taps, weight.dim(0), weight.dim(1)});
}

// Calls f(lines) until all rows of tiles are done. Each call has so few of them that the arrays between the transforms
// stay small.
template <class F>
void for_each_piece(const Tiling& tiling, std::int64_t channels, F f) {
  constexpr std::int64_t most = std::int64_t{4} << 20;  // numbers in a piece, 16 MiB: a bound on memory
  const std::int64_t lines = tiling.images * tiling.rows.tiles();
  const std::int64_t pieces = std::min(lines, (places * tiling.tiles() * channels + most - 1) / most);
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = lines * i / pieces;
    f(Lines{first, lines * (i + 1) / pieces - first});
  }
}

// `weight`: (16, in channels, out channels)
void convolve(const Tiling& tiling, const Array& x, const Array& weight, const float* bias, const Array& y) {
  for_each_piece(tiling, x.dim(1) + y.dim(1), [&](const Lines& lines) {
    const Array inputs = to_places<InputTransform>(tiling, lines, x);
    const Array products = Array::empty({places, inputs.dim(1), y.dim(1)});
    backend({}).matmul(inputs, weight, std::nullopt, products);
    from_places(tiling, lines, products, bias, y);
  });
}

}  // namespace

bool Winograd::pays(DType dtype, const Shape& tiled, double share) const {
  if (dtype != DType::f32 || window_.kernel != Extent(3) || window_.stride != Extent(1) || window_.groups != 1)
    return false;
  // Winograd saves multiplications and pays for them with additions. Additions grow with the number of channels, and
  // products with the number of pairs of channels. So there must be enough channels: C * O / (C + O) of at least 40,
  // which is 80 input and 80 output channels. There must be enough tiles (128) to make up for the transform of the
  // weight. And few tiles may lie partly outside of the image: the 16 products of each tile may be at most 2/3 of the
  // products of the other way, which are `taps` (9) for each output times `share`. The three limits were measured
  // against oneDNN on two cores of an AMD EPYC (Zen 4), where Winograd was 1.3 to 2 times as fast from 80 channels on.
  const auto tiles = static_cast<double>(Tiling(tiled, window_.dilation, window_.padding).tiles());
  const auto outputs = static_cast<double>(tiled[0] * tiled[2] * tiled[3]);
  return tiles >= 128 && places * tiles <= 2. / 3 * taps * share * outputs && x_[1] * y_[1] >= 40 * (x_[1] + y_[1]);
}

void Winograd::forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const {
  const Array row = bias ? bias->to(DType::f32).contiguous() : Array();
  convolve(Tiling(y_, window_.dilation, window_.padding), x,
           transform_matrices<WeightTransform>(taps_first(weight.transpose(0, 1))), bias ? row.data<float>() : nullptr,
           y);
}

void Winograd::grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const {
  const Extent padding(2 * window_.dilation.h - window_.padding.h, 2 * window_.dilation.w - window_.padding.w);
  convolve(Tiling(x_, window_.dilation, padding), grad_y, transform_matrices<TurnedWeightTransform>(taps_first(weight)),
           nullptr, grad_x);
}

void Winograd::grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const {
  const Tiling tiling(y_, window_.dilation, window_.padding);
  Array sum;
  for_each_piece(tiling, x.dim(1) + grad_y.dim(1), [&](const Lines& lines) {
    const Array product = Array::empty({places, grad_y.dim(1), x.dim(1)});
    backend({}).matmul(to_places<OutputTransformGrad>(tiling, lines, grad_y).transpose(1, 2),
                       to_places<InputTransform>(tiling, lines, x), std::nullopt, product);
    if (!sum.defined()) sum = product;
    else backend({}).zip(functors::Add{}, sum, product, sum);
  });
  const Array grads = transform_matrices<WeightTransformGrad>(sum);
  backend({}).copy(grads.reshape({3, 3, grads.dim(1), grads.dim(2)}).permute({2, 3, 0, 1}), grad_weight);
}

}  // namespace tandem::cpu

#include <tandem/core/cpu/conv2d_cook_toom.h>
#include <tandem/core/cpu/cook_toom_scheme.h>
#include <tandem/core/cpu/parallel.h>

#include <cstring>
#include <vector>

namespace tandem::cpu {

namespace {

// Tiles along one axis whose pixels lie `step` (the dilation) apart. The axis has one such line for each of the first
// `step` outputs.
struct Line {
  std::int64_t first_output, first_input, outputs, tiles;
};

struct Axis {
  const CookToomScheme* scheme;
  std::int64_t inputs, step;
  std::vector<Line> lines;
  std::int64_t tiles = 0;  // of all lines

  Axis(const CookToomScheme* scheme, std::int64_t inputs, std::int64_t outputs, std::int64_t dilation,
       std::int64_t padding)
      : scheme(scheme), inputs(inputs), step(dilation) {
    for (std::int64_t i = 0; i < std::min(dilation, outputs); ++i) {
      const std::int64_t count = (outputs - i + dilation - 1) / dilation;
      lines.push_back({i, i - padding, count, (count + scheme->m - 1) / scheme->m});
      tiles += lines.back().tiles;
    }
  }
  // Pixels of the input that `count` tiles in a row see.
  std::int64_t seen(std::int64_t count) const { return count * scheme->m + scheme->r - 1; }
};

// Some tiles of one line of rows of one image, with all their columns. `tile` is the number of the first tile in its
// block, and `pixel_row` the number of the first row of input pixels.
struct Strip {
  std::int64_t image;
  const Line* line;
  std::int64_t first, count;  // tiles of the line
  std::int64_t tile, input_row, output_row;
};

// The numbers of a block that lie between an image and its products. Some arrays would begin or have rows at distances
// that a cache maps to the same place; 16 numbers more avoid that.
constexpr std::int64_t spread(std::int64_t numbers) { return numbers % 256 == 0 ? numbers + lanes : numbers; }

class Tiling {
 public:
  Tiling(Axis rows, Axis columns, std::int64_t images) : rows(std::move(rows)), columns(std::move(columns)) {
    row_tiles_ = images * this->rows.tiles;
  }

  Axis rows, columns;

  std::int64_t places() const { return rows.scheme->n() * columns.scheme->n(); }

  // Rows of tiles, counted through all images, and how many of them a block has: so many that a block has `tiles` tiles.
  std::int64_t row_tiles() const { return row_tiles_; }
  std::int64_t rows_in_block(std::int64_t tiles) const {
    return std::clamp<std::int64_t>(tiles / columns.tiles, 1, row_tiles_);
  }

  // The strips of the rows of tiles [first, last).
  std::vector<Strip> strips(std::int64_t first, std::int64_t last) const {
    std::vector<Strip> result;
    std::int64_t tile = 0, input_row = 0, output_row = 0;
    while (first < last) {
      std::int64_t in_image = first % rows.tiles;
      std::size_t l = 0;
      while (in_image >= rows.lines[l].tiles) in_image -= rows.lines[l++].tiles;
      const std::int64_t count = std::min(last - first, rows.lines[l].tiles - in_image);
      result.push_back({first / rows.tiles, &rows.lines[l], in_image, count, tile, input_row, output_row});
      first += count;
      tile += count * columns.tiles;
      input_row += rows.seen(count);
      output_row += count * rows.scheme->m;
    }
    return result;
  }

 private:
  std::int64_t row_tiles_;
};

// Copies the pixels of one row of an image that a line of tiles sees, with zeros around the image and behind the
// channels. `first` and the pixels that follow it lie `step` apart.
void lay_out(const float* row, std::int64_t width, std::int64_t channels, std::int64_t first, std::int64_t step,
             std::int64_t count, float* to) {
  const std::int64_t whole = channels / lanes * lanes, stride = padded(channels);
  for (std::int64_t i = 0; i < count; ++i, first += step, to += stride) {
    if (first < 0 || first >= width) {
      std::memset(to, 0, static_cast<std::size_t>(stride) * sizeof(float));
      continue;
    }
    const float* const from = row + first * channels;
    for (std::int64_t c = 0; c < whole; c += lanes) store<lanes>(to + c, load<lanes>(from + c));
    if (whole < stride) {
      store<lanes>(to + whole, Lanes{});
      for (std::int64_t c = whole; c < channels; ++c) to[c] = from[c];
    }
  }
}

// The way back: `count` pixels into a row of an image, with the bias added.
void put_back(const float* from, std::int64_t count, std::int64_t channels, const float* bias, std::int64_t first,
              std::int64_t step, float* row) {
  const std::int64_t whole = channels / lanes * lanes, stride = padded(channels);
  for (std::int64_t i = 0; i < count; ++i, first += step, from += stride) {
    float* const to = row + first * channels;
    for (std::int64_t c = 0; c < whole; c += lanes)
      store<lanes>(to + c, bias ? load<lanes>(from + c) + load<lanes>(bias + c) : load<lanes>(from + c));
    for (std::int64_t c = whole; c < channels; ++c) to[c] = bias ? from[c] + bias[c] : from[c];
  }
}

// The tiles of a block of one image (the input, or the outputs' gradient), first transformed along the rows and then,
// one place of the rows at a time, along the columns.
class ToTiles {
 public:
  enum class Kind { input, output_grad };

  ToTiles(const Tiling& tiling, Kind kind, const Array& image, std::int64_t block_rows)
      : tiling_(tiling), kind_(kind), channels_(image.dim(1)), image_(static_cast<const float*>(image.raw())),
        height_(image.dim(2)), width_(image.dim(3)) {
    for (const Line& line : tiling.columns.lines) longest_ = std::max(longest_, pixels(tiling.columns, line.tiles));
    // At most one strip for each row of tiles, so this is enough for every block.
    pixel_rows_ = block_rows * pixels(tiling.rows, 1);
    column_step_ = spread(pixel_rows_ * padded(channels_));
    place_step_ = spread(tiling.columns.tiles * column_step_);
    tile_place_step_ = spread(block_rows * tiling.columns.tiles * padded(channels_));
  }

  std::int64_t numbers() const {
    return longest_ * padded(channels_) + tiling_.columns.scheme->n() * place_step_ +
           tiling_.rows.scheme->n() * tile_place_step_ + 2 * lanes;
  }
  void use(float* memory) {
    line_ = memory;
    by_column_ = line_ + longest_ * padded(channels_) + lanes;
    tiles_ = by_column_ + tiling_.columns.scheme->n() * place_step_ + lanes;
  }

  void transform_rows(const std::vector<Strip>& strips) {
    const std::int64_t stride = padded(channels_);
    const auto& columns = tiling_.columns;
    const auto transform = kind_ == Kind::input ? columns.scheme->input : columns.scheme->output_grad;
    for (const Strip& strip : strips) {
      const std::int64_t count = pixels(tiling_.rows, strip.count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t h = first(*strip.line) + (strip.first * tiling_.rows.scheme->m + i) * tiling_.rows.step;
        float* to = by_column_ + (row_of(strip) + i) * stride;
        if (h < 0 || h >= height_) {
          for (std::int64_t p = 0; p < columns.scheme->n(); ++p)
            for (std::int64_t t = 0; t < columns.tiles; ++t)
              std::memset(to + p * place_step_ + t * column_step_, 0, static_cast<std::size_t>(stride) * sizeof(float));
          continue;
        }
        const float* const row = image_ + (strip.image * height_ + h) * width_ * channels_;
        for (const Line& line : columns.lines) {
          lay_out(row, width_, channels_, first(line), columns.step, pixels(columns, line.tiles), line_);
          transform({line_, stride}, {to, column_step_, place_step_}, line.tiles, stride);
          to += line.tiles * column_step_;
        }
      }
    }
  }

  // Place `column` of the rows, transformed along the columns. The tiles of its place `row` are then at tiles(row).
  void transform_columns(const std::vector<Strip>& strips, std::int64_t column) {
    const std::int64_t stride = padded(channels_);
    const auto transform = kind_ == Kind::input ? tiling_.rows.scheme->input : tiling_.rows.scheme->output_grad;
    for (const Strip& strip : strips) {
      const float* from = by_column_ + column * place_step_ + row_of(strip) * stride;
      float* to = tiles_ + strip.tile * stride;
      for (std::int64_t t = 0; t < tiling_.columns.tiles; ++t, from += column_step_, to += strip.count * stride)
        transform({from, stride}, {to, stride, tile_place_step_}, strip.count, stride);
    }
  }

  const float* tiles(std::int64_t row) const { return tiles_ + row * tile_place_step_; }
  std::int64_t channels() const { return channels_; }

 private:
  std::int64_t pixels(const Axis& axis, std::int64_t tiles) const {
    return kind_ == Kind::input ? axis.seen(tiles) : tiles * axis.scheme->m;
  }
  std::int64_t first(const Line& line) const { return kind_ == Kind::input ? line.first_input : line.first_output; }
  std::int64_t row_of(const Strip& strip) const { return kind_ == Kind::input ? strip.input_row : strip.output_row; }

  const Tiling& tiling_;
  Kind kind_;
  std::int64_t channels_;
  const float* image_;
  std::int64_t height_, width_;
  std::int64_t longest_ = 0, pixel_rows_, column_step_, place_step_, tile_place_step_;
  float *line_ = nullptr, *by_column_ = nullptr, *tiles_ = nullptr;
};

// The products of a block, transformed back along the columns, one place of the rows at a time, and then along the rows.
class FromTiles {
 public:
  FromTiles(const Tiling& tiling, const Array& image, std::int64_t block_rows)
      : tiling_(tiling), channels_(image.dim(1)), image_(static_cast<float*>(image.raw())), height_(image.dim(2)),
        width_(image.dim(3)) {
    const std::int64_t stride = padded(channels_);
    for (const Line& line : tiling.columns.lines) longest_ = std::max(longest_, line.tiles * tiling.columns.scheme->m);
    place_step_ = spread(block_rows * tiling.columns.tiles * stride);
    row_step_ = spread(tiling.columns.tiles * tiling.columns.scheme->n() * stride);
    pixel_rows_ = block_rows * tiling.rows.scheme->m;
  }

  std::int64_t numbers() const {
    return longest_ * padded(channels_) + tiling_.rows.scheme->n() * place_step_ + pixel_rows_ * row_step_ + 2 * lanes;
  }
  void use(float* memory) {
    line_ = memory;
    products_ = line_ + longest_ * padded(channels_) + lanes;
    by_row_ = products_ + tiling_.rows.scheme->n() * place_step_ + lanes;
  }

  float* products(std::int64_t row) const { return products_ + row * place_step_; }

  void transform_columns(const std::vector<Strip>& strips, std::int64_t column) {
    const std::int64_t stride = padded(channels_), n = tiling_.columns.scheme->n();
    for (const Strip& strip : strips) {
      const float* from = products_ + strip.tile * stride;
      float* to = by_row_ + strip.output_row * row_step_ + column * stride;
      for (std::int64_t t = 0; t < tiling_.columns.tiles; ++t, from += strip.count * stride, to += n * stride)
        tiling_.rows.scheme->output({from, stride, place_step_}, {to, row_step_}, strip.count, stride);
    }
  }

  void transform_rows(const std::vector<Strip>& strips, const float* bias) {
    const std::int64_t stride = padded(channels_);
    const auto& [rows, columns] = std::pair<const Axis&, const Axis&>(tiling_.rows, tiling_.columns);
    for (const Strip& strip : strips) {
      const std::int64_t done = strip.first * rows.scheme->m;
      const std::int64_t count = std::min(strip.count * rows.scheme->m, strip.line->outputs - done);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t h = strip.line->first_output + (done + i) * rows.step;
        float* const row = image_ + (strip.image * height_ + h) * width_ * channels_;
        const float* from = by_row_ + (strip.output_row + i) * row_step_;
        for (const Line& line : columns.lines) {
          columns.scheme->output({from, columns.scheme->n() * stride, stride}, {line_, stride}, line.tiles, stride);
          put_back(line_, line.outputs, channels_, bias, line.first_output, columns.step, row);
          from += line.tiles * columns.scheme->n() * stride;
        }
      }
    }
  }

 private:
  const Tiling& tiling_;
  std::int64_t channels_;
  float* image_;
  std::int64_t height_, width_;
  std::int64_t longest_ = 0, place_step_, row_step_, pixel_rows_;
  float *line_ = nullptr, *products_ = nullptr, *by_row_ = nullptr;
};

// The weight of a convolution that takes `inputs` channels to `outputs`, transformed to (columns' places, rows' places,
// panels of outputs, inputs, outputs of a panel).
struct Kernels {
  std::int64_t inputs, outputs;
  std::int64_t width() const { return std::min(panel, padded(outputs)); }  // of a panel
  std::int64_t size() const { return (outputs + width() - 1) / width() * width() * inputs; }  // numbers of one place
};

// (outputs, inputs, kernel h, kernel w) or, where `turned`, (inputs, outputs, kernel h, kernel w) turned by half a turn.
Array kernels_of(const Tiling& tiling, const Kernels& kernels, const Array& weight, bool turned) {
  const auto &rows = *tiling.rows.scheme, &columns = *tiling.columns.scheme;
  const std::int64_t taps = rows.r * columns.r;
  const Array taps_first = (turned ? weight : weight.transpose(0, 1)).permute({2, 3, 0, 1}).contiguous();
  const auto* const from = static_cast<const float*>(taps_first.raw());
  const Array result = Array::empty({tiling.places(), kernels.size()});
  auto* const to = static_cast<float*>(result.raw());
  const std::int64_t blocks = padded(kernels.outputs) / lanes;
  parallel_for(kernels.inputs, taps * kernels.size(), [&](std::int64_t c) {
    std::vector<double> line(static_cast<std::size_t>(taps * lanes)), half(static_cast<std::size_t>(columns.n() * rows.r * lanes)),
        places(static_cast<std::size_t>(tiling.places() * lanes));
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t count = std::min<std::int64_t>(lanes, kernels.outputs - b * lanes);
      for (std::int64_t t = 0; t < taps; ++t) {
        const float* const tap = from + ((turned ? taps - 1 - t : t) * kernels.inputs + c) * kernels.outputs + b * lanes;
        for (std::int64_t i = 0; i < lanes; ++i) line[static_cast<std::size_t>(t * lanes + i)] = i < count ? tap[i] : 0;
      }
      // Each row of taps gives a column of `half`, which has the columns' places one after the other.
      for (int h = 0; h < rows.r; ++h)
        columns.kernel({line.data() + h * columns.r * lanes, lanes}, {half.data() + h * lanes, 0, rows.r * lanes}, 1, lanes);
      for (int p = 0; p < columns.n(); ++p)
        rows.kernel({half.data() + p * rows.r * lanes, lanes}, {places.data() + p * rows.n() * lanes, 0, lanes}, 1, lanes);
      const std::int64_t first = b * lanes / panel * panel;
      float* const at = to + first * kernels.inputs + c * kernels.width() + b * lanes - first;
      for (std::int64_t p = 0; p < tiling.places(); ++p)
        for (std::int64_t i = 0; i < lanes; ++i)
          at[p * kernels.size() + i] = static_cast<float>(places[static_cast<std::size_t>(p * lanes + i)]);
    }
  });
  return result;
}

// How many tiles a block has. What lies between the transforms of one place of the rows is to stay in the second-level
// cache or, with few channels, in the first; and the weight, which each block reads as a whole, must not come from
// memory too often.
std::int64_t tiles_in_block(const Tiling& tiling, const Kernels& kernels) {
  const std::int64_t n = tiling.rows.scheme->n();
  const std::int64_t bytes = 4 * n * (padded(kernels.inputs) + padded(kernels.outputs));  // for a tile
  const bool weight_fits = tiling.places() * kernels.size() * 4 <= 512 << 10;
  return std::max<std::int64_t>((weight_fits ? 32 << 10 : 640 << 10) / bytes, 16);
}

// Calls f(worker, first, last) for blocks of rows of tiles on several threads; a thread is one worker, which takes its
// blocks one after the other.
template <class F>
void for_each_block(std::int64_t row_tiles, std::int64_t block_rows, std::int64_t workers, F f) {
  const std::int64_t blocks = (row_tiles + block_rows - 1) / block_rows;
  parallel_for(workers, parallel_grain, [&](std::int64_t worker) {
    for (std::int64_t b = blocks * worker / workers; b < blocks * (worker + 1) / workers; ++b)
      f(worker, b * block_rows, std::min((b + 1) * block_rows, row_tiles));
  });
}

std::int64_t workers_for(std::int64_t row_tiles, std::int64_t& block_rows) {
  const std::int64_t threads = omp_get_max_threads();
  block_rows = std::min(block_rows, (row_tiles + threads - 1) / threads);
  return std::min(threads, (row_tiles + block_rows - 1) / block_rows);
}

void convolve(const Tiling& tiling, const Array& x, const Array& kernel, const float* bias, const Array& y) {
  const Kernels kernels{x.dim(1), y.dim(1)};
  const auto* const weight = static_cast<const float*>(kernel.raw());
  const std::int64_t rows = tiling.rows.scheme->n(), columns = tiling.columns.scheme->n();
  std::int64_t block_rows = tiling.rows_in_block(tiles_in_block(tiling, kernels));
  const std::int64_t workers = workers_for(tiling.row_tiles(), block_rows);
  const ToTiles input(tiling, ToTiles::Kind::input, x, block_rows);
  const FromTiles output(tiling, y, block_rows);
  const Array memory = Array::empty({workers, spread(input.numbers() + output.numbers())});
  for_each_block(tiling.row_tiles(), block_rows, workers, [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    float* const own = memory.data<float>() + worker * memory.dim(1);
    ToTiles from = input;
    FromTiles to = output;
    from.use(own);
    to.use(own + input.numbers());
    const auto strips = tiling.strips(first, last);
    const std::int64_t tiles = (last - first) * tiling.columns.tiles;
    from.transform_rows(strips);
    for (std::int64_t c = 0; c < columns; ++c) {
      from.transform_columns(strips, c);
      for (std::int64_t r = 0; r < rows; ++r)
        multiply_tiles(tiles, kernels.inputs, padded(kernels.outputs),
                       Factor<false>{from.tiles(r), padded(kernels.inputs)},
                       weight + (c * rows + r) * kernels.size(), kernels.inputs * panel, kernels.width(), false,
                       to.products(r), padded(kernels.outputs));
      to.transform_columns(strips, c);
    }
    to.transform_rows(strips, bias);
  });
}

// (columns' places, rows' places, inputs, padded outputs) -> (outputs, inputs, kernel h, kernel w)
Array weight_of(const Tiling& tiling, const Kernels& kernels, const float* sums) {
  const auto &rows = *tiling.rows.scheme, &columns = *tiling.columns.scheme;
  const std::int64_t taps = rows.r * columns.r, outputs = padded(kernels.outputs);
  const Array result = Array::empty({taps, kernels.inputs, outputs});
  auto* const to = static_cast<float*>(result.raw());
  parallel_for(kernels.inputs, taps * kernels.inputs * outputs, [&](std::int64_t c) {
    std::vector<double> line(static_cast<std::size_t>(taps * lanes)), half(static_cast<std::size_t>(columns.n() * rows.r * lanes)),
        places(static_cast<std::size_t>(tiling.places() * lanes));
    for (std::int64_t o = 0; o < outputs; o += lanes) {
      for (std::int64_t p = 0; p < tiling.places(); ++p)
        for (std::int64_t i = 0; i < lanes; ++i)
          places[static_cast<std::size_t>(p * lanes + i)] = sums[(p * kernels.inputs + c) * outputs + o + i];
      for (int p = 0; p < columns.n(); ++p)
        rows.kernel_grad({places.data() + p * rows.n() * lanes, 0, lanes}, {half.data() + p * rows.r * lanes, lanes}, 1, lanes);
      for (int h = 0; h < rows.r; ++h)
        columns.kernel_grad({half.data() + h * lanes, 0, rows.r * lanes}, {line.data() + h * columns.r * lanes, lanes}, 1, lanes);
      for (std::int64_t t = 0; t < taps; ++t)
        for (std::int64_t i = 0; i < lanes; ++i)
          to[(t * kernels.inputs + c) * outputs + o + i] = static_cast<float>(line[static_cast<std::size_t>(t * lanes + i)]);
    }
  });
  return result.slice(2, 0, kernels.outputs)
      .reshape({rows.r, columns.r, kernels.inputs, kernels.outputs})
      .permute({3, 2, 0, 1});
}

template <int m, int r>
constexpr const CookToomScheme* a_scheme = &scheme<m, r>;

const CookToomScheme* scheme_for(std::int64_t kernel) {
  if (kernel == 3) return a_scheme<4, 3>;
  if (kernel == 5) return a_scheme<5, 5>;
  return nullptr;
}

}  // namespace

CookToomConv::CookToomConv(const Window& window, const Shape& x, const Shape& y)
    : window_(window), x_(x), y_(y), rows_(scheme_for(window.kernel.h)), columns_(scheme_for(window.kernel.w)) {}

bool CookToomConv::can(DType dtype) const {
  return dtype == DType::f32 && window_.stride == Extent(1) && window_.groups == 1 && rows_ && columns_;
}

void CookToomConv::forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const {
  const Tiling tiling({rows_, x_[2], y_[2], window_.dilation.h, window_.padding.h},
                      {columns_, x_[3], y_[3], window_.dilation.w, window_.padding.w}, x_[0]);
  const Array row = bias ? bias->to(DType::f32).contiguous() : Array();
  convolve(tiling, x, kernels_of(tiling, {x_[1], y_[1]}, weight.to(DType::f32), false), bias ? row.data<float>() : nullptr, y);
}

// The gradient of the input is the convolution of the outputs' gradient with the kernel turned by half a turn.
void CookToomConv::grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling({rows_, y_[2], x_[2], dilation.h, (kernel.h - 1) * dilation.h - padding.h},
                      {columns_, y_[3], x_[3], dilation.w, (kernel.w - 1) * dilation.w - padding.w}, x_[0]);
  convolve(tiling, grad_y, kernels_of(tiling, {y_[1], x_[1]}, weight.to(DType::f32), true), nullptr, grad_x);
}

void CookToomConv::grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const {
  const Tiling tiling({rows_, x_[2], y_[2], window_.dilation.h, window_.padding.h},
                      {columns_, x_[3], y_[3], window_.dilation.w, window_.padding.w}, x_[0]);
  const Kernels kernels{x.dim(1), grad_y.dim(1)};
  const std::int64_t rows = rows_->n(), columns = columns_->n();
  const std::int64_t size = kernels.inputs * padded(kernels.outputs);
  std::int64_t block_rows = tiling.rows_in_block(tiles_in_block(tiling, kernels));
  const std::int64_t workers = workers_for(tiling.row_tiles(), block_rows);
  const ToTiles input(tiling, ToTiles::Kind::input, x, block_rows);
  const ToTiles output(tiling, ToTiles::Kind::output_grad, grad_y, block_rows);
  const Array memory = Array::empty({workers, spread(input.numbers() + output.numbers())});
  const Array sums = Array::empty({workers, tiling.places() * size});
  std::vector<char> begun(static_cast<std::size_t>(workers));
  for_each_block(tiling.row_tiles(), block_rows, workers, [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    float* const own = memory.data<float>() + worker * memory.dim(1);
    float* const sum = sums.data<float>() + worker * sums.dim(1);
    ToTiles in = input, out = output;
    in.use(own);
    out.use(own + input.numbers());
    const auto strips = tiling.strips(first, last);
    const std::int64_t tiles = (last - first) * tiling.columns.tiles;
    in.transform_rows(strips);
    out.transform_rows(strips);
    for (std::int64_t c = 0; c < columns; ++c) {
      in.transform_columns(strips, c);
      out.transform_columns(strips, c);
      for (std::int64_t r = 0; r < rows; ++r)
        multiply_tiles(kernels.inputs, tiles, padded(kernels.outputs), Factor<true>{in.tiles(r), padded(kernels.inputs)},
                       out.tiles(r), panel, padded(kernels.outputs), begun[static_cast<std::size_t>(worker)],
                       sum + (c * rows + r) * size, padded(kernels.outputs));
    }
    begun[static_cast<std::size_t>(worker)] = true;
  });
  for (std::int64_t w = 1; w < workers; ++w)
    backend({}).zip(functors::Add{}, sums.select(0, 0), sums.select(0, w), sums.select(0, 0));
  backend({}).copy(weight_of(tiling, kernels, sums.data<float>()), grad_weight);
}

}  // namespace tandem::cpu

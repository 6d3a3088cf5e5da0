#include <tandem/core/cpu/conv/cook_toom_tiles.h>

#include <algorithm>

namespace tandem::cpu {

namespace {

// `count` pixels of a row of an image. The first is `first`, and the distance between them is `step`.
struct RowPart {
  std::int64_t first, step, count;
};

// Copies the pixels of `part`, and writes zeros for those outside the image and after the last channel.
template <class T>
void lay_out(const T* row, const ChannelsLastImage& image, const RowPart& part, float* to) {
  const std::int64_t channels = image.channels, stride = padded(channels), whole = channels / lanes * lanes;
  const auto pixels_before = [&](std::int64_t end) {
    return std::clamp<std::int64_t>((end - part.first + part.step - 1) / part.step, 0, part.count);
  };
  const std::int64_t begin = pixels_before(0), end = pixels_before(image.width);
  std::fill(to, to + begin * stride, 0.0f);
  for (std::int64_t i = begin; i < end; ++i) {
    const T* const from = row + (part.first + i * part.step) * image.next;
    float* const pixel = to + i * stride;
    for (std::int64_t c = 0; c < whole; c += lanes) store<lanes>(pixel + c, load<lanes>(from + c));
    if (whole < stride) store<lanes>(pixel + whole, Lanes{});
    for (std::int64_t c = whole; c < channels; ++c) pixel[c] = static_cast<float>(from[c]);
  }
  std::fill(to + end * stride, to + part.count * stride, 0.0f);
}

// The reverse of lay_out(): writes the pixels, or adds to them.
template <class T>
void put_back(const float* from, const ChannelsLastImage& image, const RowPart& part, bool add, T* row) {
  const std::int64_t channels = image.channels, stride = padded(channels), whole = channels / lanes * lanes;
  for (std::int64_t i = 0; i < part.count; ++i, from += stride) {
    T* const to = row + (part.first + i * part.step) * image.next;
    for (std::int64_t c = 0; c < whole; c += lanes)
      store<lanes>(to + c, add ? load<lanes>(from + c) + load<lanes>(to + c) : load<lanes>(from + c));
    for (std::int64_t c = whole; c < channels; ++c)
      to[c] = static_cast<T>(add ? from[c] + static_cast<float>(to[c]) : from[c]);
  }
}

template <class F>
void dispatch_image(DType dtype, F f) {
  if (dtype == DType::bf16) f(bfloat16{});
  else if (dtype == DType::f16) f(float16{});
  else f(float{});
}

}  // namespace

Axis::Axis(const CookToomScheme* scheme, std::int64_t outputs, std::int64_t dilation, std::int64_t padding)
    : scheme(scheme), step(dilation) {
  for (std::int64_t i = 0; i < std::min(dilation, outputs); ++i) {
    const std::int64_t count = (outputs - i + dilation - 1) / dilation;
    lines.push_back({i, i - padding, count, (count + scheme->m - 1) / scheme->m});
    tiles += lines.back().tiles;
  }
}

std::vector<Strip> Tiling::strips(std::int64_t first, std::int64_t last) const {
  std::vector<Strip> result;
  std::int64_t tile = 0, input_row = 0, output_row = 0;
  while (first < last) {
    std::int64_t in_line = first % rows.tiles;
    auto line = rows.lines.begin();
    for (; in_line >= line->tiles; ++line) in_line -= line->tiles;
    const std::int64_t count = std::min(last - first, line->tiles - in_line);
    result.push_back({first / rows.tiles, &*line, in_line, count, tile, input_row, output_row});
    first += count;
    tile += count * columns.tiles;
    input_row += rows.seen(count);
    output_row += count * rows.scheme->m;
  }
  return result;
}

ToTiles::ToTiles(const Tiling& tiling, Kind kind, const Array& image, std::int64_t block)
    : tiling_(tiling),
      kind_(kind),
      image_(image),
      stride_(padded(image_.channels)),
      pixels_of_tile_(pixels(tiling.columns, 1)) {
  for (const auto& line : tiling.columns.lines) longest_ = std::max(longest_, pixels(tiling.columns, line.tiles));
  // There is at most one strip for each row of tiles.
  column_step_ = spread(block * pixels(tiling.rows, 1) * stride_);
  place_step_ = spread(tiling.columns.tiles * column_step_);
  if (!image_.has_whole_vectors()) return;
  auto found = std::make_shared<std::vector<LineTiles>>();
  for (const auto& line : tiling.columns.lines) found->push_back(tiles_of(line));
  tiles_of_lines_ = std::move(found);
}

std::int64_t ToTiles::numbers() const { return longest_ * stride_ + tiling_.columns.scheme->n() * place_step_; }

void ToTiles::use(float* memory) {
  row_buffer_ = memory;
  by_column_ = row_buffer_ + longest_ * stride_;
  if (image_.has_whole_vectors()) std::fill(row_buffer_, row_buffer_ + stride_, 0.0f);
}

// A tile of the outputs' gradient has m pixels, those of its own outputs. A tile of the input has n pixels.
std::int64_t ToTiles::pixels(const Axis& axis, std::int64_t tiles) const {
  return kind_ == Kind::input ? axis.seen(tiles) : tiles * axis.scheme->m;
}
std::int64_t ToTiles::first(const Axis::Line& line) const {
  return kind_ == Kind::input ? line.first_input : line.first_output;
}
std::int64_t ToTiles::row_of(const Strip& strip) const {
  return kind_ == Kind::input ? strip.input_row : strip.output_row;
}

ToTiles::LineTiles ToTiles::tiles_of(const Axis::Line& line) const {
  LineTiles found{line.tiles, line.tiles, {}};
  for (std::int64_t t = 0; t < line.tiles; ++t) {
    LineTiles::Edge edge{t, {}};
    bool is_inside = true;
    for (std::int64_t k = 0; k < pixels_of_tile_; ++k) {
      const std::int64_t at = first(line) + (t * tiling_.columns.scheme->m + k) * tiling_.columns.step;
      const bool exists = 0 <= at && at < image_.width;
      edge.pixels[static_cast<std::size_t>(k)] = exists ? at * image_.next : -1;
      is_inside = is_inside && exists;
    }
    if (!is_inside) found.edges.push_back(edge);
    else if (found.begin == line.tiles) found.begin = t;
    if (is_inside) found.end = t + 1;
  }
  return found;
}

void ToTiles::transform_row(const char* row, float* to) {
  const auto& [scheme, step, lines, tiles] = tiling_.columns;
  const auto transform = kind_ == Kind::input ? scheme->input : scheme->output_grad;
  const auto transform_tile = kind_ == Kind::input ? scheme->input_tile : scheme->output_grad_tile;
  // Copies, because the compiler would reload members after each store.
  const std::int64_t column_step = column_step_, place_step = place_step_, channels = stride_;
  const auto count = static_cast<std::size_t>(pixels_of_tile_);
  const float* const zeros = row_buffer_;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Axis::Line& line = lines[i];
    if (tiles_of_lines_) {
      const auto* const pixels = reinterpret_cast<const float*>(row);
      const auto& [begin, end, edges] = (*tiles_of_lines_)[i];
      if (begin < end)
        transform({pixels + (first(line) + begin * scheme->m * step) * image_.next, step * image_.next},
                  {to + begin * column_step, place_step, column_step}, {1, end - begin, channels});
      for (const auto& edge : edges) {
        std::array<const float*, most_places> seen;
        for (std::size_t k = 0; k < count; ++k) seen[k] = edge.pixels[k] >= 0 ? pixels + edge.pixels[k] : zeros;
        transform_tile(seen.data(), to + edge.tile * column_step, place_step, channels);
      }
    } else {
      dispatch_image(image_.dtype, [&](auto type) {
        lay_out(reinterpret_cast<const decltype(type)*>(row), image_,
                {first(line), step, pixels(tiling_.columns, line.tiles)}, row_buffer_);
      });
      transform({row_buffer_, stride_}, {to, place_step_, column_step_}, {1, line.tiles, stride_});
    }
    to += line.tiles * column_step_;
  }
}

void ToTiles::along_rows(const std::vector<Strip>& strips) {
  const std::int64_t places = tiling_.columns.scheme->n(), tiles = tiling_.columns.tiles, channels = stride_;
  const std::int64_t column_step = column_step_, place_step = place_step_;
  for (const Strip& strip : strips)
    for (std::int64_t i = 0; i < pixels(tiling_.rows, strip.count); ++i) {
      const std::int64_t h = first(*strip.line) + (strip.first * tiling_.rows.scheme->m + i) * tiling_.rows.step;
      float* const to = by_column_ + (row_of(strip) + i) * stride_;
      if (0 <= h && h < image_.height) {
        transform_row(image_.row(strip.image, h), to);
        continue;
      }
      for (std::int64_t p = 0; p < places; ++p)
        for (std::int64_t t = 0; t < tiles; ++t)
          for (std::int64_t c = 0; c < channels; c += lanes)
            store<lanes>(to + p * place_step + t * column_step + c, Lanes{});
    }
}

void ToTiles::along_columns(const std::vector<Strip>& strips, std::int64_t column, float* tiles,
                            std::int64_t place_step) const {
  const auto transform = kind_ == Kind::input ? tiling_.rows.scheme->input : tiling_.rows.scheme->output_grad;
  for (const Strip& strip : strips)
    transform({by_column_ + column * place_step_ + row_of(strip) * stride_, stride_, column_step_},
              {tiles + strip.tile * stride_, place_step, tiling_.columns.tiles * stride_, stride_},
              {tiling_.columns.tiles, strip.count, stride_});
}

FromTiles::FromTiles(const Tiling& tiling, const Array& image, std::int64_t block, std::int64_t columns)
    : tiling_(tiling),
      image_(image),
      stride_(padded(image_.channels)),
      columns_(columns),
      rows_(block * tiling.rows.scheme->m) {
  for (const auto& line : tiling.columns.lines) longest_ = std::max(longest_, line.tiles * tiling.columns.scheme->m);
  place_step_ = spread(block * tiling.columns.tiles * stride_);
  row_step_ = spread(tiling.columns.tiles * tiling.columns.scheme->n() * stride_);
}

std::int64_t FromTiles::numbers() const {
  return longest_ * stride_ + columns_ * tiling_.rows.scheme->n() * place_step_ + rows_ * row_step_;
}

void FromTiles::use(float* memory) {
  row_buffer_ = memory;
  std::fill(row_buffer_, row_buffer_ + stride_, 0.0f);  // pixels outside the image are added to these zeros
  products_ = row_buffer_ + longest_ * stride_;
  by_row_ = products_ + columns_ * tiling_.rows.scheme->n() * place_step_;
}

void FromTiles::along_columns(const std::vector<Strip>& strips, std::int64_t column) {
  const std::int64_t tile = tiling_.columns.scheme->n() * stride_;
  for (const Strip& strip : strips)
    tiling_.rows.scheme->output(
        {products(column) + strip.tile * stride_, place_step_, tiling_.columns.tiles * stride_, stride_},
        {by_row_ + strip.output_row * row_step_ + column * stride_, row_step_, tile},
        {tiling_.columns.tiles, strip.count, stride_}, {});
}

void FromTiles::along_rows(const std::vector<Strip>& strips, const Added& added) {
  const auto& [scheme, step, lines, tiles] = tiling_.columns;
  const std::int64_t tile = scheme->n() * stride_;
  for (const Strip& strip : strips) {
    const std::int64_t done = strip.first * tiling_.rows.scheme->m;
    const std::int64_t count = std::min(strip.count * tiling_.rows.scheme->m, strip.line->outputs - done);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t h = strip.line->first_output + (done + i) * tiling_.rows.step;
      char* const row = image_.row(strip.image, h);
      const float* from = by_row_ + (strip.output_row + i) * row_step_;
      for (const auto& line : lines) {
        if (image_.has_whole_vectors()) {
          auto* const pixels = reinterpret_cast<float*>(row) + line.first_output * image_.next;
          const std::int64_t next = step * image_.next, whole = line.outputs / scheme->m;
          scheme->output({from, stride_, tile}, {pixels, next}, {1, whole, stride_}, added);
          if (whole < line.tiles) {
            // The last tile has more pixels than the image. The excess pixels go to row_buffer_.
            std::array<float*, most_places> seen;
            for (std::int64_t k = 0; k < scheme->m; ++k) {
              const std::int64_t at = whole * scheme->m + k;
              seen[static_cast<std::size_t>(k)] = at < line.outputs ? pixels + at * next : row_buffer_;
            }
            scheme->output_tile(from + whole * tile, stride_, seen.data(), stride_, added);
          }
        } else {
          scheme->output({from, stride_, tile}, {row_buffer_, stride_}, {1, line.tiles, stride_}, {added.bias});
          dispatch_image(image_.dtype, [&](auto type) {
            put_back(row_buffer_, image_, {line.first_output, step, line.outputs}, added.add,
                     reinterpret_cast<decltype(type)*>(row));
          });
        }
        from += line.tiles * tile;
      }
    }
  }
}

}  // namespace tandem::cpu

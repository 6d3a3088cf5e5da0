// The tiles of an image along both axes, and the transforms from an image to places and back, for both orders of
// cook_toom_orders.h.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/conv/channels_last_image.h>
#include <tandem/core/cpu/conv/cook_toom_scheme.h>

#include <array>
#include <memory>
#include <vector>

namespace tandem::cpu {

// An axis of a convolution, divided into tiles. If the kernel is dilated, the pixels that one tile reads are `step`
// apart. The axis then consists of `step` lines, each of which begins one pixel later.
struct Axis {
  struct Line {
    std::int64_t first_output, first_input, outputs, tiles;
  };

  const CookToomScheme* scheme;
  std::int64_t step;
  std::vector<Line> lines;
  std::int64_t tiles = 0;  // of all lines

  Axis(const CookToomScheme* scheme, std::int64_t outputs, std::int64_t dilation, std::int64_t padding);

  // Returns the number of input pixels that `count` consecutive tiles read.
  std::int64_t seen(std::int64_t count) const { return count * scheme->m + scheme->r - 1; }
};

// The tiles of one line of rows of one image, with all their columns. A block consists of strips.
struct Strip {
  std::int64_t image;
  const Axis::Line* line;
  std::int64_t first, count;                 // rows of tiles of this line
  std::int64_t tile, input_row, output_row;  // the total number of each in the preceding strips
};

struct Tiling {
  Axis rows, columns;
  std::int64_t images;

  int places() const { return rows.scheme->n() * columns.scheme->n(); }
  // Rows of tiles are counted across all images; a block is a range of them.
  std::int64_t tile_rows() const { return images * rows.tiles; }
  std::vector<Strip> strips(std::int64_t first, std::int64_t last) const;
};

// Transforms an image, the input or the outputs' gradient, to places: first along the rows of pixels, for a whole
// block, and then along the columns, one place of the rows at a time. The places of one column of a block's tiles,
// which are multiplied next, are therefore still in the cache.
class ToTiles {
 public:
  enum class Kind { input, output_grad };

  // `image` must outlive this object. `block` is the number of tile rows in a block.
  ToTiles(const Tiling& tiling, Kind kind, const Array& image, std::int64_t block);

  // numbers() returns how much memory the object needs, in numbers; use() sets its address.
  std::int64_t numbers() const;
  void use(float* memory);

  void along_rows(const std::vector<Strip>& strips);
  // For place `column` of the rows, writes the places along the columns, (tiles, padded channels) each, place_step
  // apart. Tiles are in the order of rows of tiles.
  void along_columns(const std::vector<Strip>& strips, std::int64_t column, float* tiles,
                     std::int64_t place_step) const;

 private:
  std::int64_t pixels(const Axis& axis, std::int64_t tiles) const;
  std::int64_t first(const Axis::Line& line) const;
  std::int64_t row_of(const Strip& strip) const;
  void transform_row(const char* row, float* to);

  // The tiles of a line of columns. The tiles [begin, end) have all their pixels inside the image; `edges` are the
  // others.
  struct LineTiles {
    struct Edge {
      std::int64_t tile;
      std::array<std::int64_t, most_places> pixels;  // offsets from the beginning of the row, or -1 outside the image
    };
    std::int64_t begin, end;
    std::vector<Edge> edges;
  };
  LineTiles tiles_of(const Axis::Line& line) const;

  const Tiling& tiling_;
  const Kind kind_;
  const ChannelsLastImage image_;
  const std::int64_t stride_;  // numbers per pixel: padded channels
  const std::int64_t pixels_of_tile_;
  std::int64_t longest_ = 0, column_step_, place_step_;
  std::shared_ptr<const std::vector<LineTiles>> tiles_of_lines_;  // set if pixels can be read in place
  float *row_buffer_ = nullptr, *by_column_ = nullptr;
};

// Transforms places back to an image, first along the columns and then along the rows.
class FromTiles {
 public:
  // `columns` is the number of columns whose products are stored at a time: 1, or all of them.
  FromTiles(const Tiling& tiling, const Array& image, std::int64_t block, std::int64_t columns = 1);

  std::int64_t numbers() const;
  void use(float* memory);

  // Returns the address for the products of place `column` of the rows, which have the layout of ToTiles' tiles.
  float* products(std::int64_t column) const {
    return products_ + column % columns_ * tiling_.rows.scheme->n() * place_step_;
  }
  std::int64_t place_step() const { return place_step_; }
  void along_columns(const std::vector<Strip>& strips, std::int64_t column);
  void along_rows(const std::vector<Strip>& strips, const Added& added);

 private:
  const Tiling& tiling_;
  const ChannelsLastImage image_;
  const std::int64_t stride_, columns_;
  std::int64_t longest_ = 0, place_step_, row_step_, rows_;
  float *row_buffer_ = nullptr, *products_ = nullptr, *by_row_ = nullptr;
};

}  // namespace tandem::cpu

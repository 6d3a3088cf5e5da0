#include <tandem/core/cpu/conv/cook_toom_orders.h>

namespace tandem::cpu {

namespace {

// The tiles of an image at all their places, (places of the columns, places of the rows, tiles, padded channels), for a
// group of rows of tiles.
class PlacedTiles {
 public:
  PlacedTiles(const Tiling& tiling, const Array& image)
      : tiling_(tiling), image_(image), channels_(padded(image.dim(1))) {
    const std::int64_t row = 4 * tiling.places() * tiling.columns.tiles * channels_;
    group_ = std::clamp<std::int64_t>(most_bytes / row, 1, tiling.tile_rows());
    place_step_ = spread(group_ * tiling.columns.tiles * channels_);
    memory_ = Array::empty({tiling.places() * place_step_});
  }

  // Calls f(first, last) for each group, after transforming its tiles.
  template <class F>
  void for_each_group(F f) {
    for (std::int64_t first = 0; first < tiling_.tile_rows(); first += group_) {
      const std::int64_t last = std::min(first + group_, tiling_.tile_rows());
      place(first, last);
      f(first, last);
    }
  }
  std::int64_t group() const { return group_; }

  // Returns the tiles of `rows` rows, starting at `row` of the group, at place `column` of the rows and all places of
  // the columns.
  TilesInColumn in_column(std::int64_t column, std::int64_t row, std::int64_t rows) const {
    return {at(column, row), rows * tiling_.columns.tiles, channels_, place_step_};
  }

 private:
  // The tiles are written once and read once for each panel, so they need not fit into a thread's own caches.
  static constexpr std::int64_t most_bytes = 8 << 20;

  float* at(std::int64_t column, std::int64_t row) const {
    return memory_.data<float>() + column * tiling_.rows.scheme->n() * place_step_ +
           row * tiling_.columns.tiles * channels_;
  }
  void place(std::int64_t first, std::int64_t last) {
    const Blocks blocks(first, last, rows_of_block(tiling_, channels_));
    const ToTiles input(tiling_, ToTiles::Kind::input, image_, blocks.block);
    const Array memory = Array::empty({blocks.workers, spread(input.numbers())});
    blocks.for_each(memory_.numel(), [&](std::int64_t worker, std::int64_t begin, std::int64_t end) {
      ToTiles from = input;
      from.use(memory.data<float>() + worker * memory.dim(1));
      const auto strips = tiling_.strips(begin, end);
      from.along_rows(strips);
      for (std::int64_t column = 0; column < tiling_.columns.scheme->n(); ++column)
        from.along_columns(strips, column, at(column, begin - first), place_step_);
    });
  }

  const Tiling& tiling_;
  const Array image_;
  const std::int64_t channels_;
  std::int64_t group_, place_step_;
  Array memory_;
};

// Returns the number of panels of a slice. The slice's matrices of one column leave room in the second-level cache (1
// MiB) for the tiles.
std::int64_t panels_of_slice(const Tiling& tiling, std::int64_t inputs) {
  return (768 << 10) / (4 * tiling.rows.scheme->n() * inputs * panel);
}

// Runs a pass panel by panel. It processes the taps and the outputs of one slice at a time.
class PanelPass {
 public:
  explicit PanelPass(const TilePass& pass)
      : pass_(pass),
        down_(pass.tiling.rows.scheme->n()),
        across_(pass.tiling.columns.scheme->n()),
        tiles_(pass.tiling, pass.x),
        slices_(pass.outputs, panels_of_slice(pass.tiling, pass.x.dim(1))) {
    const std::int64_t width = pass.tiling.columns.tiles * slices_.width;
    most_rows_ = (tiles_.group() + slices_.parts - 1) / slices_.parts;
    out_step_ = spread(tiles_.group() * width);
    kept_ = pass.tiling.places() * most_rows_ * width <= most_products ? across_ : 1;
    const Kernels& kernels = pass.convolution ? pass.convolution->kernels : pass.kernel_sums->sums;
    tap_numbers_ = spread(taps_of(kernels, 0, {0, pass.x.dim(1)}).numbers());
    place_numbers_ = PlaceMatrices(pass.tiling, pass.x.dim(1), slices_.width).numbers();
    std::int64_t numbers = 0;
    if (pass.convolution) numbers = to_pixels(slices_.of(pass.convolution->y, 0)).numbers();
    if (pass.kernel_sums)
      numbers =
          std::max(numbers, to_tiles(slices_.of(pass.kernel_sums->grad_y, 0)).numbers() + kept_ * down_ * out_step_);
    memory_ = Array::empty({slices_.workers, spread(tap_numbers_ + place_numbers_ + numbers)});
  }

  void run() {
    tiles_.for_each_group([&](std::int64_t first, std::int64_t last) {
      if (pass_.convolution) convolve(first, last);
      if (pass_.kernel_sums) sum(first, last);
    });
  }

 private:
  // The products of all columns are kept if they are at most this large, because they then leave room in the
  // second-level cache.
  static constexpr std::int64_t most_products = (256 << 10) / 4;

  // Computes the rows of tiles [first, last) for every slice of the output channels.
  void convolve(std::int64_t first, std::int64_t last) const {
    const auto& [kernels, added, y] = *pass_.convolution;
    slices_.for_each(y.numel(), [&](std::int64_t worker, std::int64_t slice, std::int64_t part) {
      const std::int64_t begin = first + (last - first) * part / slices_.parts;
      const std::int64_t end = first + (last - first) * (part + 1) / slices_.parts;
      const auto strips = pass_.tiling.strips(begin, end);
      const Array image = slices_.of(y, slice);
      TapPanels taps = taps_of(kernels, slice, {0, pass_.x.dim(1)});
      taps.use(memory_.data<float>() + worker * memory_.dim(1));
      for (std::int64_t p = 0; p < taps.panels(); ++p) taps.read(p);
      float* const weight = taps.at(0, 0) + tap_numbers_;
      FromTiles to = to_pixels(image);
      to.use(weight + place_numbers_);
      const Turns turns = turns_of(pass_.x.dim(1));
      for (std::int64_t turn = 0; turn < turns.count; ++turn) {
        const std::int64_t input = turns.first(turn);
        const PlaceMatrices matrices(pass_.tiling, turns.first(turn + 1) - input, image.dim(1));
        for (std::int64_t column = 0; column < across_; ++column) {
          for (std::int64_t p = 0; p < matrices.panels(); ++p) matrices.from_taps(taps, input, column, p, weight);
          TilesInColumn seen = tiles_.in_column(column, begin - first, end - begin);
          seen.data += input;
          matrices.multiply(seen, weight, turn > 0, to, column);
          if (turn + 1 == turns.count) to.along_columns(strips, column);
        }
      }
      to.along_rows(strips, added.from(slice * slices_.width));
    });
  }

  void sum(std::int64_t first, std::int64_t last) const {
    const auto& [grad_y, sums] = *pass_.kernel_sums;
    const auto strips = pass_.tiling.strips(first, last);
    slices_.for_each(grad_y.numel(), [&](std::int64_t worker, std::int64_t slice, std::int64_t part) {
      const Array image = slices_.of(grad_y, slice);
      const std::int64_t first_input = pass_.x.dim(1) * part / slices_.parts;
      const std::int64_t inputs = pass_.x.dim(1) * (part + 1) / slices_.parts - first_input;
      TapPanels taps = taps_of(sums, slice, {first_input, inputs});
      taps.use(memory_.data<float>() + worker * memory_.dim(1));
      for (std::int64_t p = 0; p < taps.panels(); ++p) first > 0 ? taps.read(p) : taps.clear(p);
      float* const places = taps.at(0, 0) + tap_numbers_;
      ToTiles out = to_tiles(image);
      out.use(places + place_numbers_);
      float* const out_tiles = places + place_numbers_ + out.numbers();
      out.along_rows(strips);
      const Turns turns = turns_of(inputs);
      for (std::int64_t turn = 0; turn < turns.count; ++turn) {
        const std::int64_t input = turns.first(turn);
        const PlaceMatrices matrices(pass_.tiling, turns.first(turn + 1) - input, image.dim(1));
        for (std::int64_t column = 0; column < across_; ++column) {
          float* const of_column = out_tiles + column % kept_ * down_ * out_step_;
          if (turn == 0) out.along_columns(strips, column, of_column, out_step_);
          TilesInColumn in = tiles_.in_column(column, 0, last - first);
          in.data += first_input + input;
          matrices.sum(in, {of_column, in.count, matrices.outputs, out_step_}, false, places);
          for (std::int64_t p = 0; p < matrices.panels(); ++p) matrices.to_taps(places, input, column, p, taps);
        }
      }
      for (std::int64_t p = 0; p < taps.panels(); ++p) taps.write(p);
    });
  }

  // If the intermediate numbers of all columns are few (kept_ > 1), a turn computes all columns for a part of the
  // inputs. The taps of these inputs then stay in a near cache.
  struct Turns {
    std::int64_t inputs, count;
    std::int64_t first(std::int64_t turn) const { return inputs * turn / count; }
  };
  Turns turns_of(std::int64_t inputs) const { return {inputs, kept_ > 1 ? parts_of_sum<false>(inputs) : 1}; }

  // Each thread creates the taps of its own slice, so they are in its cache.
  TapPanels taps_of(const Kernels& kernels, std::int64_t slice, TapPanels::Range inputs) const {
    const std::int64_t first = slice * slices_.width;
    return {kernels, {first, slices_.channels(slice)}, inputs};
  }
  FromTiles to_pixels(const Array& image) const { return {pass_.tiling, image, most_rows_, kept_}; }
  ToTiles to_tiles(const Array& image) const {
    return {pass_.tiling, ToTiles::Kind::output_grad, image, tiles_.group()};
  }

  const TilePass& pass_;
  const std::int64_t down_, across_;
  PlacedTiles tiles_;
  const Slices slices_;
  std::int64_t most_rows_, out_step_;
  std::int64_t kept_;  // columns whose numbers are kept at a time: 1 or all
  std::int64_t tap_numbers_, place_numbers_;
  Array memory_;
};

}  // namespace

void TilePass::by_panels() const { PanelPass(*this).run(); }

}  // namespace tandem::cpu

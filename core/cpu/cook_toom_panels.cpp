#include <tandem/core/cpu/cook_toom_orders.h>

#include <numeric>

namespace tandem::cpu {

namespace {

// Tiles of an image at all their places, (places of the columns, places of the rows, tiles, padded channels), for a
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

  // Calls f(first, last) for each group, with its tiles in place.
  template <class F>
  void for_each_group(F f) {
    for (std::int64_t first = 0; first < tiling_.tile_rows(); first += group_) {
      const std::int64_t last = std::min(first + group_, tiling_.tile_rows());
      place(first, last);
      f(first, last);
    }
  }
  std::int64_t group() const { return group_; }

  // The tiles of `rows` rows from `row` of the group on, at place `column` of the rows and all places of the columns.
  TilesInColumn in_column(std::int64_t column, std::int64_t row, std::int64_t rows) const {
    return {at(column, row), rows * tiling_.columns.tiles, channels_, place_step_};
  }

 private:
  // They are written once and read once for each panel, so they need not fit into a thread's own caches.
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

// The outputs, cut into slices of whole panels. A thread takes a slice from the taps to the image, or back. Where their
// number is no multiple of the threads', several threads share a slice: each does a part of it.
struct Slices {
  std::int64_t outputs, width, parts, workers;

  // What a slice's matrices of one column take should leave room in the second-level cache (1 MiB) for the tiles.
  Slices(const Tiling& tiling, std::int64_t inputs, std::int64_t outputs) : outputs(outputs) {
    const std::int64_t most = (768 << 10) / (4 * tiling.rows.scheme->n() * inputs * panel);
    const std::int64_t panels = (outputs + panel - 1) / panel, threads = Blocks::threads();
    width = panel * piece(panels, std::max<std::int64_t>(most, 1), threads);
    parts = threads / std::gcd(threads, count());
    workers = std::min(count() * parts, threads);
  }
  std::int64_t count() const { return (outputs + width - 1) / width; }
  // The channels of slice i of an image.
  Array of(const Array& image, std::int64_t i) const {
    return image.narrow(1, i * width, std::min(width, outputs - i * width));
  }
  // Calls f(worker, slice, part).
  template <class F>
  void for_each(std::int64_t elements, F f) const {
    share(workers, count() * parts, elements,
          [&](std::int64_t worker, std::int64_t i) { f(worker, i / parts, i % parts); });
  }
};

}  // namespace

void TilePass::by_panels() const {
  const std::int64_t down = tiling.rows.scheme->n(), across = tiling.columns.scheme->n();
  PlacedTiles tiles(tiling, x);
  const Slices slices(tiling, x.dim(1), outputs);
  const std::int64_t place_numbers = PlaceMatrices(tiling, x.dim(1), slices.width).numbers();
  const std::int64_t most_rows = (tiles.group() + slices.parts - 1) / slices.parts;
  const std::int64_t out_step = spread(tiles.group() * tiling.columns.tiles * slices.width);
  const auto to_pixels = [&](const Array& image) { return FromTiles(tiling, image, most_rows); };
  const auto to_tiles = [&](const Array& image) {
    return ToTiles(tiling, ToTiles::Kind::output_grad, image, tiles.group());
  };
  // Each thread makes the taps of its slice, so that they are in its cache.
  const auto taps_of = [&](const Kernels& kernels, std::int64_t slice, TapPanels::Range inputs) {
    const std::int64_t first = slice * slices.width;
    return TapPanels(kernels, {first, std::min(slices.width, outputs - first)}, inputs);
  };
  const Kernels& kernels = convolution ? convolution->kernels : kernel_sums->sums;
  const std::int64_t tap_numbers = spread(taps_of(kernels, 0, {0, x.dim(1)}).numbers());
  std::int64_t numbers = 0;
  if (convolution) numbers = to_pixels(slices.of(convolution->y, 0)).numbers();
  if (kernel_sums) numbers = std::max(numbers, to_tiles(slices.of(kernel_sums->grad_y, 0)).numbers() + down * out_step);
  const Array memory = Array::empty({slices.workers, spread(tap_numbers + place_numbers + numbers)});

  const auto convolve = [&](std::int64_t first, std::int64_t last) {
    slices.for_each(convolution->y.numel(), [&](std::int64_t worker, std::int64_t slice, std::int64_t part) {
      const std::int64_t begin = first + (last - first) * part / slices.parts;
      const std::int64_t end = first + (last - first) * (part + 1) / slices.parts;
      const auto strips = tiling.strips(begin, end);
      const Array image = slices.of(convolution->y, slice);
      const PlaceMatrices matrices(tiling, x.dim(1), image.dim(1));
      TapPanels taps = taps_of(convolution->kernels, slice, {0, x.dim(1)});
      taps.use(memory.data<float>() + worker * memory.dim(1));
      for (std::int64_t p = 0; p < taps.panels(); ++p) taps.read(p);
      float* const weight = taps.at(0, 0) + tap_numbers;
      FromTiles to = to_pixels(image);
      to.use(weight + place_numbers);
      for (std::int64_t column = 0; column < across; ++column) {
        for (std::int64_t p = 0; p < matrices.panels(); ++p) matrices.from_taps(taps, column, p, weight);
        matrices.multiply(tiles.in_column(column, begin - first, end - begin), weight, to);
        to.along_columns(strips, column);
      }
      to.along_rows(strips, convolution->added.from(slice * slices.width));
    });
  };

  const auto sum = [&](std::int64_t first, std::int64_t last) {
    const auto strips = tiling.strips(first, last);
    slices.for_each(kernel_sums->grad_y.numel(), [&](std::int64_t worker, std::int64_t slice, std::int64_t part) {
      const Array image = slices.of(kernel_sums->grad_y, slice);
      const std::int64_t first_input = x.dim(1) * part / slices.parts;
      const PlaceMatrices matrices(tiling, x.dim(1) * (part + 1) / slices.parts - first_input, image.dim(1));
      TapPanels taps = taps_of(kernel_sums->sums, slice, {first_input, matrices.inputs});
      taps.use(memory.data<float>() + worker * memory.dim(1));
      for (std::int64_t p = 0; p < taps.panels(); ++p) first > 0 ? taps.read(p) : taps.clear(p);
      float* const places = taps.at(0, 0) + tap_numbers;
      ToTiles out = to_tiles(image);
      out.use(places + place_numbers);
      float* const out_tiles = places + place_numbers + out.numbers();
      out.along_rows(strips);
      for (std::int64_t column = 0; column < across; ++column) {
        out.along_columns(strips, column, out_tiles, out_step);
        TilesInColumn in = tiles.in_column(column, 0, last - first);
        in.data += first_input;
        matrices.sum(in, {out_tiles, in.count, matrices.outputs, out_step}, false, places);
        for (std::int64_t p = 0; p < matrices.panels(); ++p) matrices.to_taps(places, column, p, taps);
      }
      for (std::int64_t p = 0; p < taps.panels(); ++p) taps.write(p);
    });
  };

  tiles.for_each_group([&](std::int64_t first, std::int64_t last) {
    if (convolution) convolve(first, last);
    if (kernel_sums) sum(first, last);
  });
}

}  // namespace tandem::cpu

// Divides the work of a pass among threads: into blocks of rows, and slices of the output channels.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/conv/tile_products.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <numeric>

namespace tandem::cpu {

// Returns the size of the pieces into which `all` is divided: at most `most`, and such that every thread gets the same
// number of pieces.
inline std::int64_t piece(std::int64_t all, std::int64_t most, std::int64_t threads) {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  return up(all, threads * up(up(all, most), threads));
}

// Rows [first, last) of tiles or pixels, divided into blocks, which are distributed over threads.
struct Blocks {
  std::int64_t first, last, block, workers;

  // Creates blocks of at most `rows` rows, or of one row if `rows` is less.
  Blocks(std::int64_t first, std::int64_t last, std::int64_t rows)
      : first(first), last(last), block(piece(last - first, std::max<std::int64_t>(rows, 1), threads())) {
    workers = std::min(threads(), count());
  }
  static std::int64_t threads() { return omp_get_max_threads(); }
  std::int64_t count() const { return (last - first + block - 1) / block; }

  // Calls f(worker, first, last) for each block.
  template <class F>
  void for_each(std::int64_t elements, F f) const {
    share(workers, count(), elements, [&](std::int64_t worker, std::int64_t b) {
      f(worker, first + b * block, std::min(first + (b + 1) * block, last));
    });
  }
};

// The output channels, divided into slices of whole panels. If the number of slices is not a multiple of the number of
// threads, several threads share a slice, and each of them computes a part.
struct Slices {
  std::int64_t outputs, width, parts, workers;

  // Creates slices of at most `most_panels` panels, or of one panel if `most_panels` is less.
  Slices(std::int64_t outputs, std::int64_t most_panels) : outputs(outputs) {
    const std::int64_t panels = (outputs + panel - 1) / panel, threads = Blocks::threads();
    width = panel * piece(panels, std::max<std::int64_t>(most_panels, 1), threads);
    parts = threads / std::gcd(threads, count());
    workers = std::min(count() * parts, threads);
  }
  std::int64_t count() const { return (outputs + width - 1) / width; }
  std::int64_t channels(std::int64_t i) const { return std::min(width, outputs - i * width); }
  // Returns the channels of slice i of an image.
  Array of(const Array& image, std::int64_t i) const { return image.narrow(1, i * width, channels(i)); }
  // Calls f(worker, slice, part).
  template <class F>
  void for_each(std::int64_t elements, F f) const {
    share(workers, count() * parts, elements,
          [&](std::int64_t worker, std::int64_t i) { f(worker, i / parts, i % parts); });
  }
};

}  // namespace tandem::cpu

// The two orders in which convolutions by tiles run. Block by block: a thread processes some rows of tiles from the
// input image to the output image, with all outputs, and intermediate results stay in the caches. Panel by panel: if
// the transformed weight is larger than a cache, the tiles of many rows are kept instead. A thread then processes a
// panel of outputs from its taps to the image, so the whole transformed weight is never in memory at once.
//
// One block, with tiles of n x n places and m x m outputs:
//
//   image x                                      image y
//     | ToTiles::along_rows                        ^ FromTiles::along_rows
//   n places of each row of pixels               n places of each row of outputs
//     | ToTiles::along_columns, for one place      ^ FromTiles::along_columns
//   n matrices (tiles, inputs) -- multiply_tiles -> n matrices (tiles, outputs)
//                                  ^
//                     n matrices (inputs, outputs) of the weight, by PlaceMatrices
//
// The lower half runs n times, once for each place of the rows.
//
// The gradient of the weight sums the products of the tiles of x, n x n pixels each, with those of the outputs'
// gradient, m x m pixels each. The gradient of the input is a convolution of the outputs' gradient. If the caller wants
// both, one pass over the tiles of the outputs' gradient computes both: x then takes the role of the m x m pixels, and
// the resulting kernel is rotated by half a turn.
//
// The results of a convolution are the same in both orders. The sums by panels are the same for every number of
// threads.
#pragma once

#include <tandem/core/cpu/conv/blocks.h>
#include <tandem/core/cpu/conv/cook_toom_kernels.h>

#include <algorithm>
#include <optional>

namespace tandem::cpu {

// The work of one pass over the tiles of an image x: the convolution of x, the gradient of a kernel, or both.
struct TilePass {
  struct Convolution {
    Kernels kernels;
    Added added;  // the bias is padded
    Array y;
  };
  // Sums over all tiles of x and of an image that has the size of the outputs.
  struct KernelSums {
    Array grad_y;
    Kernels sums;
  };

  const Tiling& tiling;
  Array x;
  std::int64_t outputs;  // channels
  std::optional<Convolution> convolution = {};
  std::optional<KernelSums> kernel_sums = {};

  void run() const { weight_fits() ? by_blocks() : by_panels(); }

 private:
  // Returns whether the weight fits into three quarters of the second-level cache (1 MiB).
  bool weight_fits() const { return tiling.places() * padded(x.dim(1)) * padded(outputs) * 4 <= 768 << 10; }
  void by_blocks() const;
  void by_panels() const;
};

// Returns the number of rows of tiles whose numbers at one place of the rows, `channels` per tile, take about 64 KB. On
// an AMD EPYC (Zen 4), half and twice that size are as fast.
inline std::int64_t rows_of_block(const Tiling& tiling, std::int64_t channels) {
  const std::int64_t tile = 4 * tiling.rows.scheme->n() * channels;
  return std::max<std::int64_t>((64 << 10) / tile, 16) / tiling.columns.tiles;
}

}  // namespace tandem::cpu

// Which tiles a convolution gets, and whether tiles pay at all.
//
// The choice is a pure function of the layer's shape, its dtype and the instructions of the build. It does not look at
// the number of images, threads or processes, nor at a clock: W processes with B / W images each must compute as one
// with B does.
#pragma once

#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/cook_toom_scheme.h>

#include <string>

namespace tandem::cpu {

struct CookToomChoice {
  const CookToomScheme *rows = nullptr, *columns = nullptr;  // null where there are none
  double cycles = 0;  // estimated, for an image; a little more where errors are larger
  double direct_cycles = 0;
  // Whether both gradients may come from the tiles of the outputs' gradient. The kernel's is then less exact.
  bool serves_both_gradients = false;

  bool beats_direct() const { return rows && cycles < direct_cycles; }
  std::string describe() const;  // for people
};

// Whether there are tiles for a kernel: of 1, 3, 5 or 7 rows and columns, but not 1 x 1.
bool has_tiles(Extent kernel);

// For a kernel with `dilation` that takes `inputs` to `outputs` channels, over an output of `size` pixels.
CookToomChoice choose_cook_toom(Extent kernel, Extent dilation, Extent size, std::int64_t inputs, std::int64_t outputs);

// The estimated cycles of direct sums for an image, of f32 or 16-bit numbers. `share` is the part of the kernel's
// products that they compute; the rest is padding.
double direct_cycles(Extent kernel, Extent size, std::int64_t inputs, std::int64_t outputs, double share, DType dtype);

}  // namespace tandem::cpu

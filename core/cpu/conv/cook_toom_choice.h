// Chooses the tiles of a convolution, and estimates whether tiles are worth their cost.
//
// The choice is a pure function of the layer's shape, its dtype and the processor. It does not depend on the number of
// images, threads or processes, nor on measured times: W processes with B / W images each must compute the same as one
// with B images.
#pragma once

#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/cook_toom_scheme.h>

#include <string>

namespace tandem::cpu {

struct CookToomChoice {
  const CookToomScheme *rows = nullptr, *columns = nullptr;  // null if there are none
  double cycles = 0;  // estimated, for an image; a little more where errors are larger
  double direct_cycles = 0;
  // Whether both gradients may come from the tiles of the outputs' gradient. The weight's gradient is then less
  // accurate.
  bool serves_both_gradients = false;

  bool beats_direct() const { return rows && cycles < direct_cycles; }
  std::string describe() const;  // for people
};

// Returns whether there are tiles for a kernel: one of 1, 3, 5 or 7 rows and columns, but not 1 x 1.
bool has_tiles(Extent kernel);

// Chooses tiles for a kernel with `dilation` that maps `inputs` to `outputs` channels, and for an output of `size`
// pixels.
CookToomChoice choose_cook_toom(Extent kernel, Extent dilation, Extent size, std::int64_t inputs, std::int64_t outputs);

// The estimated cycles of direct sums for an image, of f32 or 16-bit numbers. `share` is the part of the kernel's
// products that they compute; the rest is padding.
double direct_cycles(Extent kernel, Extent size, std::int64_t inputs, std::int64_t outputs, double share, DType dtype);

}  // namespace tandem::cpu

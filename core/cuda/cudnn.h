// cuDNN behind one function: the only place that knows its API.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cuda/layouts.h>
#include <tandem/core/device/backend.h>

#include <string>

namespace tandem::cuda {

enum class Convolution { forward, grad_input, grad_weight };

// x (N, C, H, W), weight (O, C / groups, KH, KW), y (N, O, OH, OW), or their gradients: of one floating dtype, on the
// current GPU, dense in one format and aligned to 16 bytes. Which of them a kind of convolution writes: forward y,
// grad_input x, grad_weight weight.
struct ConvolutionArrays {
  Array x, weight, y;
};

struct ConvolutionOutcome {
  bool done;            // false: cuDNN has no algorithm for this dtype and format
  bool bias_added;      // false: left to the caller
  std::string problem;  // cuDNN's words where it is not done
};

// In the current stream. `bias` is for forward: (O), dense, in y's dtype, or null. Sums of 16-bit products are f32
// until the end. The algorithm is the one that cuDNN's heuristics put first and that works, chosen once for each shape:
// the choice is the same in every run. Any thread may call.
ConvolutionOutcome convolve(Convolution kind, ImageFormat format, const ConvolutionArrays& arrays, const Window& window,
                            const Array* bias);

}  // namespace tandem::cuda

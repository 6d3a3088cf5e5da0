// Convolutions by cuDNN. Only cudnn.cpp uses cuDNN's API.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>
#include <tandem/core/cuda/layouts.h>

#include <optional>
#include <string>

namespace tandem::cuda {

enum class Convolution { forward, grad_input, grad_weight };

// x (N, C, H, W), weight (O, C / groups, KH, KW) and y (N, O, OH, OW), or their gradients. They are of one floating
// dtype, on the current GPU, dense in one format and aligned to 16 bytes. Forward writes y, grad_input writes x, and
// grad_weight writes weight.
struct ConvolutionArrays {
  Array x, weight, y;
};

// "forward f32 nhwc (8, 3, 9, 9) x (4, 3, 3, 3) -> (8, 4, 7, 7), stride (1, 1), ...": for messages.
std::string words_for(Convolution kind, std::optional<ImageFormat> format, const ConvolutionArrays& arrays,
                      const Window& window);

struct ConvolutionOutcome {
  bool done;            // false: cuDNN has no algorithm for this dtype and format
  bool bias_added;      // false: the caller must add the bias
  std::string problem;  // cuDNN's message if it is not done
};

// y (N, O, OH, OW) += bias (O). Callers of convolve call it if the bias was not added.
inline void add_bias(const Array& y, const Array& bias) {
  backend(y.device()).zip(functors::Add{}, y, bias.reshape({1, bias.numel(), 1, 1}).expand(y.shape()), y);
}

// Convolves in the current stream. `bias` is for forward: (O), dense, in y's dtype, or null. `adds` is for grad_input:
// the gradient is added to what x holds. Sums of 16-bit products stay f32 until the end. The algorithm is the fastest
// of those that cuDNN's heuristics name first. These algorithms are timed when a shape comes for the first time, so two
// runs may choose differently. With --deterministic, and while a graph is recorded, convolve() takes the first
// algorithm that works. Any thread may call.
ConvolutionOutcome convolve(Convolution kind, ImageFormat format, const ConvolutionArrays& arrays, const Window& window,
                            const Array* bias, bool adds = false);

}  // namespace tandem::cuda

// Convolution by cuDNN.
#include <tandem/core/cuda/bias_gradient.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/cudnn.h>
#include <tandem/core/cuda/few_channels.h>

namespace tandem {

namespace {

using cuda::Convolution;
using cuda::ImageFormat;

bool fits(const Array& a, ImageFormat format, DType dtype) {
  return a.dtype() == dtype && cuda::is_dense(format, a) && cuda::alignment_of(a.raw()) >= 16;
}

// `a` itself where it fits. Else an array that does, with the numbers of `a` in it where it is read.
Array fitting(const Array& a, ImageFormat format, DType dtype, bool is_read = true) {
  if (fits(a, format, dtype)) return a;
  Array copy = cuda::empty_in(format, a.shape(), dtype, a.device());
  if (is_read) copy.copy_from(a);
  return copy;
}

struct Convolved {
  bool bias_added;
  Array written;  // what cuDNN wrote: the result itself, or another array, which is to be copied to the result
};

// Convolves x, weight and y in x's dtype and in channels last or, where cuDNN has no algorithm for that, row-major. An
// array that is not in that dtype and format is copied into it first, or is to be copied from it in the end.
Convolved convolve(Convolution kind, const Array& x, const Array& weight, const Array& y, const Window& window,
                   const Array* bias) {
  const DType dtype = x.dtype();
  const Array& result = kind == Convolution::forward ? y : kind == Convolution::grad_input ? x : weight;
  cuda::ConvolutionOutcome outcome;
  for (const ImageFormat format : {ImageFormat::nhwc, ImageFormat::nchw}) {
    if (format == ImageFormat::nhwc && dtype == DType::f64) continue;  // cuDNN has no such algorithm
    const auto fitted = [&](const Array& a) { return fitting(a, format, dtype, &a != &result); };
    const cuda::ConvolutionArrays arrays{fitted(x), fitted(weight), fitted(y)};
    outcome = cuda::convolve(kind, format, arrays, window, bias);
    if (!outcome.done) continue;
    return {outcome.bias_added, kind == Convolution::forward      ? arrays.y
                                : kind == Convolution::grad_input ? arrays.x
                                                                  : arrays.weight};
  }
  detail::fail("conv2d: cuDNN can't convolve ", dtype, ' ', x.shape(), " with ", weight.shape(), ", stride ",
               window.stride, ", padding ", window.padding, ", dilation ", window.dilation, ", groups ", window.groups,
               ": ", outcome.problem);
}

void deliver(const Array& written, const Array& result) {
  if (written.raw() != result.raw()) backend(result.device()).copy(written, result);
}

}  // namespace

void CudaBackend::conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                         const Array& y) {
  const Array row = bias ? cuda::packed(*bias, y.dtype()) : Array();
  if (x.dim(1) == 1 && fits(x, ImageFormat::nhwc, y.dtype())) {
    const Array taps = weight.dtype() == y.dtype() ? weight : weight.to(y.dtype());
    if (cuda::convolve_one_channel(x, taps, bias ? &row : nullptr, window, y)) return;
  }
  const Convolved done = convolve(Convolution::forward, x, weight, y, window, bias ? &row : nullptr);
  deliver(done.written, y);
  if (bias && !done.bias_added) cuda::add_bias(y, row);
}

void CudaBackend::conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                    const Array& grad_x) {
  if (grad_y.numel() == 0) return fill(grad_x, 0);
  deliver(convolve(Convolution::grad_input, grad_x, weight, grad_y, window, nullptr).written, grad_x);
}

// Where the gradient of x is added to another, cuDNN adds it as it writes.
bool CudaBackend::conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                               const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) {
  constexpr ImageFormat format = ImageFormat::nhwc;
  const DType dtype = grad_x.dtype();
  if (!add || dtype == DType::f64 || grad_y.numel() == 0 || !fits(grad_x, format, dtype)) return false;
  const cuda::ConvolutionArrays arrays{grad_x, fitting(weight, format, dtype), fitting(grad_y, format, dtype)};
  if (!cuda::convolve(Convolution::grad_input, format, arrays, window, nullptr, true).done) return false;
  conv2d_grad_weight(x, grad_y, window, grad_weight, grad_bias);
  return true;
}

// A gradient of 16 bits is converted by the kernel that makes the bias's gradient, where there is a bias.
void CudaBackend::conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                     const Array& grad_weight, const std::optional<Array>& grad_bias) {
  if (grad_y.numel() == 0) {
    if (grad_bias) fill(*grad_bias, 0);
    return fill(grad_weight, 0);
  }
  if (cuda::few_channels_grad_weight(x, grad_y, window, grad_weight, grad_bias)) return;
  const Array written = convolve(Convolution::grad_weight, x, grad_weight, grad_y, window, nullptr).written;
  if (!grad_bias) return deliver(written, grad_weight);
  const bool converts = size_of(written.dtype()) == 2 && grad_weight.dtype() == DType::f32 &&
                        (written.is_channels_last() ? grad_weight.is_channels_last() : grad_weight.is_contiguous());
  if (!converts) deliver(written, grad_weight);
  cuda::sum_pixels(grad_y, *grad_bias, converts ? std::optional(cuda::Widening{written, grad_weight}) : std::nullopt);
}

}  // namespace tandem

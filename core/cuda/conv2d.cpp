// Convolution by cuDNN.
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/cudnn.h>

namespace tandem {

namespace {

using cuda::Convolution;
using cuda::ImageFormat;

bool fits(const Array& a, ImageFormat format, DType dtype) {
  return a.dtype() == dtype && cuda::is_dense(format, a) && cuda::alignment_of(a.raw()) >= 16;
}

// Convolves x, weight and y in x's dtype and in channels last or, where cuDNN has no algorithm for that, row-major. An
// array that is not in that dtype and format is copied into it first, or copied from it in the end. A weight (O, C /
// groups, KH, KW), which is row-major, is always copied for channels last, unless it has one channel or one pixel; it
// is small beside the images. Returns whether the bias was added.
bool convolve(Convolution kind, const Array& x, const Array& weight, const Array& y, const Window& window,
              const Array* bias) {
  const DType dtype = x.dtype();
  const Array& result = kind == Convolution::forward ? y : kind == Convolution::grad_input ? x : weight;
  cuda::ConvolutionOutcome outcome;
  for (const ImageFormat format : {ImageFormat::nhwc, ImageFormat::nchw}) {
    if (format == ImageFormat::nhwc && dtype == DType::f64) continue;  // cuDNN has no such algorithm
    const auto fitting = [&](const Array& a) {
      if (fits(a, format, dtype)) return a;
      Array copy = cuda::empty_in(format, a.shape(), dtype, a.device());
      if (&a != &result) copy.copy_from(a);
      return copy;
    };
    const cuda::ConvolutionArrays arrays{fitting(x), fitting(weight), fitting(y)};
    outcome = cuda::convolve(kind, format, arrays, window, bias);
    if (!outcome.done) continue;
    const Array& written = kind == Convolution::forward      ? arrays.y
                           : kind == Convolution::grad_input ? arrays.x
                                                             : arrays.weight;
    if (written.raw() != result.raw()) backend(result.device()).copy(written, result);
    return outcome.bias_added;
  }
  detail::fail("conv2d: cuDNN can't convolve ", dtype, ' ', x.shape(), " with ", weight.shape(), ", stride ",
               window.stride, ", padding ", window.padding, ", dilation ", window.dilation, ", groups ", window.groups,
               ": ", outcome.problem);
}

}  // namespace

void CudaBackend::conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                         const Array& y) {
  const Array row = bias ? cuda::packed(*bias, y.dtype()) : Array();
  if (convolve(Convolution::forward, x, weight, y, window, bias ? &row : nullptr) || !bias) return;
  zip(functors::Add{}, y, row.reshape({1, row.numel(), 1, 1}).expand(y.shape()), y);
}

void CudaBackend::conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                    const Array& grad_x) {
  if (grad_y.numel() == 0) return fill(grad_x, 0);
  convolve(Convolution::grad_input, grad_x, weight, grad_y, window, nullptr);
}

void CudaBackend::conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                     const Array& grad_weight, const std::optional<Array>& grad_bias) {
  convolve(Convolution::grad_weight, x, grad_weight, grad_y, window, nullptr);
  if (grad_bias) reduce(Reduction::sum, grad_y, grad_bias->reshape({1, grad_bias->numel(), 1, 1}));
}

}  // namespace tandem

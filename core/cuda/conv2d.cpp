// Convolution by cuDNN, or by cuBLASLt if it is a product of matrices.
#include <tandem/core/cuda/bias_gradient.h>
#include <tandem/core/cuda/cublas.h>
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

// Returns `a` itself if it has the format and dtype. Otherwise returns a new array that has them. If `is_read`, the new
// array holds the numbers of `a`.
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

// Convolves x, weight and y in x's dtype, in channels last or, if cuDNN has no algorithm for that, in row-major order.
// An input with a different dtype or format is converted first. If the result has a different one, the caller copies it
// from `written`.
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
  detail::fail("conv2d: no algorithm of cuDNN works for ", words_for(kind, std::nullopt, {x, weight, y}, window), ": ",
               outcome.problem);
}

// Each pixel, or each filter of a 1 x 1 weight, is a row.
Array as_rows(const Array& a) { return a.permute({0, 2, 3, 1}).view({a.numel() / a.dim(1), a.dim(1)}); }

// A convolution of 1 x 1 is a product of matrices. cuDNN computes it with the same kernels of cuBLAS, but a call takes
// the host a quarter of a millisecond. That is more than the GPU needs for most such products (measured on a machine
// with an H200). Rows must begin at multiples of 16 bytes. Otherwise cuBLASLt may use a kernel without tensor cores,
// whereas cuDNN pads the rows. If cuBLASLt has no algorithm at all, cuDNN convolves after all.
bool is_product(const Window& w, const Array& x, const Array& weight, const Array& y) {
  const DType dtype = x.dtype();
  const auto has_aligned_rows = [](const Array& a) {
    return fits(a, ImageFormat::nhwc, a.dtype()) && a.dim(1) * static_cast<std::int64_t>(size_of(a.dtype())) % 16 == 0;
  };
  return w.kernel == Extent(1) && w.stride == Extent(1) && w.padding == Extent(0) && w.groups == 1 &&
         dtype != DType::f64 && y.dtype() == dtype && (weight.dtype() == dtype || weight.dtype() == DType::f32) &&
         has_aligned_rows(x) && has_aligned_rows(weight) && has_aligned_rows(y);
}

cuda::ProductMode product_mode(bool adds = false) { return {.tf32 = math_mode().tf32_conv, .adds = adds}; }

// result = left right or, if `adds`, result += left right. Returns false, and does nothing, if cuBLASLt can't compute
// it.
bool multiplied(const Array& left, const Array& right, const Array& result, bool adds = false) {
  return cuda::multiply(left, right, nullptr, result, product_mode(adds)) != cuda::Product::none;
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
  if (weight.dtype() == x.dtype() && is_product(window, x, weight, y)) {
    const Array transposed = as_rows(weight).transpose(0, 1);
    const auto made = cuda::multiply(as_rows(x), transposed, bias ? &row : nullptr, as_rows(y), product_mode());
    if (made == cuda::Product::without_bias) cuda::add_bias(y, row);
    if (made != cuda::Product::none) return;
  }
  const Convolved done = convolve(Convolution::forward, x, weight, y, window, bias ? &row : nullptr);
  deliver(done.written, y);
  if (bias && !done.bias_added) cuda::add_bias(y, row);
}

void CudaBackend::conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                    const Array& grad_x) {
  if (grad_y.numel() == 0) return fill(grad_x, 0);
  if (weight.dtype() == grad_y.dtype() && is_product(window, grad_x, weight, grad_y) &&
      multiplied(as_rows(grad_y), as_rows(weight), as_rows(grad_x)))
    return;
  deliver(convolve(Convolution::grad_input, grad_x, weight, grad_y, window, nullptr).written, grad_x);
}

// If the gradient of x is added to another gradient, the library adds it while it writes.
bool CudaBackend::conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                               const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) {
  constexpr ImageFormat format = ImageFormat::nhwc;
  const DType dtype = grad_x.dtype();
  if (!add || dtype == DType::f64 || grad_y.numel() == 0 || !fits(grad_x, format, dtype)) return false;
  const cuda::ConvolutionArrays arrays{grad_x, fitting(weight, format, dtype), fitting(grad_y, format, dtype)};
  const bool is_made = is_product(window, arrays.x, arrays.weight, arrays.y) &&
                       multiplied(as_rows(arrays.y), as_rows(arrays.weight), as_rows(grad_x), true);
  if (!is_made && !cuda::convolve(Convolution::grad_input, format, arrays, window, nullptr, true).done) return false;
  conv2d_grad_weight(x, grad_y, window, grad_weight, grad_bias);
  return true;
}

// If there is a bias, the kernel that computes its gradient also converts a gradient of 16 bits.
void CudaBackend::conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                     const Array& grad_weight, const std::optional<Array>& grad_bias) {
  if (grad_y.numel() == 0) {
    if (grad_bias) fill(*grad_bias, 0);
    return fill(grad_weight, 0);
  }
  if (cuda::few_channels_grad_weight(x, grad_y, window, grad_weight, grad_bias)) return;
  if (is_product(window, x, grad_weight, grad_y)) {
    const Array left = as_rows(grad_y).transpose(0, 1), right = as_rows(x), result = as_rows(grad_weight);
    const bool sums = grad_bias && grad_bias->dtype() == result.dtype() && cuda::alignment_of(grad_bias->raw()) >= 16 &&
                      cuda::multiply_with_row_sums(left, right, result, *grad_bias, product_mode());
    if (sums) return;
    if (multiplied(left, right, result)) {
      if (grad_bias) cuda::sum_pixels(grad_y, *grad_bias, std::nullopt);
      return;
    }
  }
  const Array written = convolve(Convolution::grad_weight, x, grad_weight, grad_y, window, nullptr).written;
  if (!grad_bias) return deliver(written, grad_weight);
  const bool converts = size_of(written.dtype()) == 2 && grad_weight.dtype() == DType::f32 &&
                        (written.is_channels_last() ? grad_weight.is_channels_last() : grad_weight.is_contiguous());
  if (!converts) deliver(written, grad_weight);
  cuda::sum_pixels(grad_y, *grad_bias, converts ? std::optional(cuda::Widening{written, grad_weight}) : std::nullopt);
}

}  // namespace tandem

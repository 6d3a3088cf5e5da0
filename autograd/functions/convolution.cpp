#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/convolution.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/gradient_place.h>
#include <tandem/autograd/images_and_signals.h>
#include <tandem/autograd/low_weights.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>
#include <tandem/core/ops/into.h>

namespace tandem {

using namespace autograd;

namespace {

void check_convolution(const Tensor& x, const Tensor& weight, Kind kind, const char* operation) {
  check_ndim(x, kind, operation, "input", batch_shape(kind));
  check_ndim(weight, kind, operation, "weight",
             kind == Kind::signal ? "3-dimensional, with the kernel size last"
                                  : "4-dimensional, with the kernel height and width last");
  check_dtypes(operation, x, weight);
}

Window window_of(const Tensor& weight, Extent stride, Extent padding, Extent dilation, std::int64_t groups, Kind kind,
                 const char* operation) {
  const Extent kernel{kind == Kind::signal ? 1 : weight.dim(2), weight.dim(-1)};
  return {kernel, extent_of(stride, kind, 1, operation), extent_of(padding, kind, 0, operation),
          extent_of(dilation, kind, 1, operation), groups};
}

// Returns the weight in the form that a GPU's convolution of x needs: channels last, and in the dtype of x. `weight` is
// `parameter` as an image. The weight is converted once, for the convolution and its gradients. The CPU converts
// weights as it packs them.
Array filter_for(const Array& x, const Array& weight, const Tensor& parameter) {
  const bool fits = weight.dtype() == x.dtype(), lowers = weight.dtype() == DType::f32 && size_of(x.dtype()) == 2;
  if (x.device().is_cpu() || x.dtype() == DType::f64 || !(fits || lowers)) return weight;
  if (weight.is_channels_last()) return fits ? weight : low_weight(parameter, weight, x.dtype());
  Array filter = Array::empty_channels_last(weight.shape(), x.dtype(), weight.device());
  filter.copy_from(weight);
  return filter;
}

// The gradients of input, weight and bias, as images. `in` is the input, which only the gradients of weight and bias
// need, and `shape` its shape. `filter` is the weight in the layout that x's device wants. The gradients of weight and
// bias are written to their gradient places where these exist and fit.
Gradients conv2d_gradients(const Saved& in, const Shape& shape, const Array& grad_y, const Array& filter,
                           const Window& window, const Array& weight, Needs needs, Kind kind) {
  Gradients gradients(3);
  const bool sums = needs[1] || needs[2], with_bias = needs[2];
  if (!sums) {
    if (needs[0]) gradients[0] = ops::conv2d_grad_input(grad_y, filter, window, shape);
    return gradients;
  }
  const Array x = as_image(in, kind);
  const Array weight_place = as_image(gradient_place(1), kind), bias_place = gradient_place(2);
  const bool fits = weight_place.defined() && (!x.device().is_cpu() || weight_place.is_contiguous()) &&
                    (!with_bias || bias_place.defined());
  auto places = fits ? ops::Conv2dWeightGrad{weight_place, with_bias ? bias_place : Array()}
                     : ops::empty_weight_grad(x, window, weight.dim(0), with_bias, weight.dtype());
  const auto bias = with_bias ? std::optional(places.bias) : std::nullopt;
  if (needs[0]) {
    const Array sum = as_image(take_gradient(0), kind);
    gradients[0] = ops::conv2d_grads_into(x, grad_y, filter, window, places.weight, bias, sum);
  } else {
    ops::conv2d_grad_weight_into(x, grad_y, window, places.weight, bias);
  }
  gradients[1] = std::move(places.weight);
  gradients[2] = std::move(places.bias);
  return gradients;
}

Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Kind kind,
                const char* operation) {
  const Scope scope(operation);
  check_convolution(input, weight, kind, operation);
  const Tensor x = autocast_low(input);
  const Window window =
      window_of(weight, options.stride, options.padding, options.dilation, options.groups, kind, operation);
  const Array image = as_image(x.value(), kind), kernel = as_image(weight.value(), kind);
  const Array filter = filter_for(image, kernel, weight);
  const Array y = ops::conv2d(image, filter, low_bias(bias, image), window);
  const bool has_sums = weight.requires_grad() || (bias.defined() && bias.requires_grad());
  const Saved in = has_sums ? Saved(operation, x) : Saved();
  return record(operation, {x, weight, bias}, as_given(y, kind),
                [in, shape = image.shape(), w = Saved(operation, kernel), filter, window, kind](
                    const Array& given, Needs needs) -> Gradients {
                  w.check_unchanged();
                  Gradients gradients =
                      conv2d_gradients(in, shape, as_image(given, kind), filter, window, w, needs, kind);
                  for (const std::size_t i : {0, 1}) gradients[i] = as_given(gradients[i], kind);
                  return gradients;
                });
}

// Returns whether the output padding is smaller than the stride, as the operation requires. An output padding that is
// only smaller than the dilation is allowed too, but it adds elements that no position of the window covers.
bool ends_within_stride(Extent output_padding, const Window& window) {
  const auto within = [](std::int64_t more, std::int64_t stride, std::int64_t dilation) {
    // If `more` is smaller than neither, the operation itself throws the Error.
    return more < stride || more >= dilation;
  };
  return within(output_padding.h, window.stride.h, window.dilation.h) &&
         within(output_padding.w, window.stride.w, window.dilation.w);
}

Tensor convolve_transposed(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvTransposeOptions& options, Kind kind, const char* operation);

// Computes the result without padding. Then it crops the padding and appends zeros for the output padding.
Tensor padded_at_end(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTransposeOptions& options,
                     Kind kind, const char* operation) {
  ConvTransposeOptions unpadded = options;
  unpadded.padding = unpadded.output_padding = 0;
  const Tensor whole = convolve_transposed(x, weight, {}, unpadded, kind, operation);
  const auto& [p, more] = std::pair(options.padding, options.output_padding);
  ops::Padding padding{-p.w, more.w - p.w};
  if (kind == Kind::image) padding.insert(padding.end(), {-p.h, more.h - p.h});
  const Tensor y = pad(whole, padding);
  if (!bias.defined()) return y;
  TANDEM_CHECK(bias.shape() == Shape{y.dim(1)}, operation, ": bias must have shape (", y.dim(1), "), got ",
               bias.shape());
  return y + cast(reshape(bias, kind == Kind::image ? Shape{-1, 1, 1} : Shape{-1, 1}), y.dtype());
}

Tensor convolve_transposed(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvTransposeOptions& options, Kind kind, const char* operation) {
  const Scope scope(operation);
  check_convolution(input, weight, kind, operation);
  const Tensor x = autocast_low(input);
  const Window window =
      window_of(weight, options.stride, options.padding, options.dilation, options.groups, kind, operation);
  const Extent more = extent_of(options.output_padding, kind, 0, operation);
  if (!ends_within_stride(more, window)) return padded_at_end(input, weight, bias, options, kind, operation);
  const Array image = as_image(x.value(), kind), kernel = as_image(weight.value(), kind);
  const Array y =
      ops::conv_transpose2d(image, kernel, bias.defined() ? std::optional(bias.value()) : std::nullopt, window, more);
  const DType bias_dtype = bias.defined() ? bias.dtype() : DType::f32;
  return record(operation, {x, weight, bias}, as_given(y, kind),
                [in = Saved(operation, image), w = Saved(operation, kernel), window, kind, bias_dtype](
                    const Array& given, Needs needs) -> Gradients {
                  const Array grad = as_image(given, kind).channels_last();
                  Gradients gradients(3);
                  if (needs[0]) gradients[0] = as_given(ops::conv2d(grad, w, std::nullopt, window), kind);
                  if (needs[1])
                    gradients[1] = as_given(
                        ops::conv2d_grad_weight(grad, in, window, w.get().dim(0), false, w.get().dtype()).weight, kind);
                  if (needs[2]) gradients[2] = ops::reduce(Reduction::sum, grad, {0, 2, 3}).to(bias_dtype);
                  return gradients;
                });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return of_batch(convolve, Kind::image, "conv2d", x, weight, bias, options);
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return of_batch(convolve, Kind::signal, "conv1d", x, weight, bias, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return of_batch(convolve_transposed, Kind::image, "conv_transpose2d", x, weight, bias, options);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return of_batch(convolve_transposed, Kind::signal, "conv_transpose1d", x, weight, bias, options);
}

}  // namespace tandem

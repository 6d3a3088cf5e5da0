#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_reduce.h>
#include <tandem/autograd/ops_spatial.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

// A signal (N, C, L) is an image of height 1: no number moves.
enum class Kind { image, signal };

Array as_image(const Array& a, Kind kind) { return kind == Kind::signal && a.defined() ? a.unsqueeze(2) : a; }
Array as_given(const Array& a, Kind kind) { return kind == Kind::signal && a.defined() ? a.squeeze(2) : a; }

// What an option says about the dimensions of the input; `none` is what the height of a signal has.
Extent extent_of(Extent given, Kind kind, std::int64_t none, const char* operation) {
  if (kind == Kind::image) return given;
  TANDEM_CHECK(given.h == given.w, operation, ": takes one number for each option, got ", given);
  return {none, given.w};
}

void check_rank(const Tensor& x, Kind kind, const char* operation, const char* what, const char* shape) {
  TANDEM_CHECK(x.defined(), operation, ": ", what, " is undefined");
  TANDEM_CHECK(x.shape().rank() == (kind == Kind::signal ? 3 : 4), operation, ": ", what, " must be ", shape,
               ", got ", x.shape());
}

void check_convolution(const Tensor& x, const Tensor& weight, Kind kind, const char* operation) {
  check_rank(x, kind, operation, "input", kind == Kind::signal ? "(N, C, L)" : "(N, C, H, W)");
  check_rank(weight, kind, operation, "weight",
             kind == Kind::signal ? "of rank 3, with the kernel's size last"
                                  : "of rank 4, with the kernel's height and width last");
}

Window window_of(const Tensor& weight, Extent stride, Extent padding, Extent dilation, std::int64_t groups,
                 Kind kind, const char* operation) {
  const Extent kernel{kind == Kind::signal ? 1 : weight.dim(2), weight.dim(-1)};
  return {kernel, extent_of(stride, kind, 1, operation), extent_of(padding, kind, 0, operation),
          extent_of(dilation, kind, 1, operation), groups};
}

std::optional<Array> value_of(const Tensor& bias) {
  return bias.defined() ? std::optional(bias.value()) : std::nullopt;
}

Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                Kind kind, const char* operation) {
  const ProfileRange range(operation);
  check_convolution(input, weight, kind, operation);
  const Tensor x = autocast_low(input);
  const Window window =
      window_of(weight, options.stride, options.padding, options.dilation, options.groups, kind, operation);
  const Array image = as_image(x.value(), kind), kernel = as_image(weight.value(), kind);
  const Array y = ops::conv2d(image, kernel, value_of(bias), window);
  return record(operation, {x, weight, bias}, as_given(y, kind),
                [in = Saved(operation, image), w = Saved(operation, kernel), window, kind](
                    const Array& given, Needs needs) -> Gradients {
                  const Array grad = as_image(given, kind);
                  Gradients gradients(3);
                  if (needs[0])
                    gradients[0] = as_given(ops::conv2d_grad_input(grad, w, window, in.get().shape()), kind);
                  if (needs[1] || needs[2]) {
                    auto sums =
                        ops::conv2d_grad_weight(in, grad, window, w.get().dim(0), needs[2], w.get().dtype());
                    gradients[1] = as_given(sums.weight, kind);
                    gradients[2] = std::move(sums.bias);
                  }
                  return gradients;
                });
}

Tensor convolve_transposed(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvTransposeOptions& options, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  check_convolution(input, weight, kind, operation);
  const Tensor x = autocast_low(input);
  const Window window =
      window_of(weight, options.stride, options.padding, options.dilation, options.groups, kind, operation);
  const Array image = as_image(x.value(), kind), kernel = as_image(weight.value(), kind);
  const Array y = ops::conv_transpose2d(image, kernel, value_of(bias), window,
                                        extent_of(options.output_padding, kind, 0, operation));
  const DType bias_dtype = bias.defined() ? bias.dtype() : DType::f32;
  return record(
      operation, {x, weight, bias}, as_given(y, kind),
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

Tensor pool_maximum(const Tensor& x, const Pooling& pooling, Kind kind, const char* operation) {
  const auto pooled = ops::max_pool2d(as_image(x.value(), kind), pooling);
  return record(operation, {x}, as_given(pooled.y, kind),
                [index = pooled.index, pooling, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::max_pool2d_grad(as_image(grad, kind), index, pooling), kind)};
                });
}

Tensor pool_average(const Tensor& x, const Pooling& pooling, Kind kind, const char* operation) {
  return record(operation, {x}, as_given(ops::avg_pool2d(as_image(x.value(), kind), pooling), kind),
                [pooling, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::avg_pool2d_grad(as_image(grad, kind), pooling), kind)};
                });
}

void check_pooled(const Tensor& x, Kind kind, const char* operation) {
  check_rank(x, kind, operation, "input", kind == Kind::signal ? "(N, C, L)" : "(N, C, H, W)");
}

Tensor max_pool(const Tensor& x, const MaxPoolOptions& o, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  check_pooled(x, kind, operation);
  const Window window{extent_of(o.kernel_size, kind, 1, operation),
                      extent_of(o.stride.value_or(o.kernel_size), kind, 1, operation),
                      extent_of(o.padding, kind, 0, operation), extent_of(o.dilation, kind, 1, operation)};
  const Pooling pooling = ops::pooling_of(as_image(x.value(), kind), window, o.ceil_mode, operation);
  return pool_maximum(x, pooling, kind, operation);
}

Tensor avg_pool(const Tensor& x, const AvgPoolOptions& o, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  check_pooled(x, kind, operation);
  TANDEM_CHECK(!o.divisor_override || *o.divisor_override != 0, operation,
               ": divisor_override must not be 0");
  const Window window{extent_of(o.kernel_size, kind, 1, operation),
                      extent_of(o.stride.value_or(o.kernel_size), kind, 1, operation),
                      extent_of(o.padding, kind, 0, operation), 1};
  Pooling pooling = ops::pooling_of(as_image(x.value(), kind), window, o.ceil_mode, operation);
  pooling.count_include_pad = o.count_include_pad;
  pooling.divisor = o.divisor_override.value_or(0);
  return pool_average(x, pooling, kind, operation);
}

Pooling adaptive(const Tensor& x, Extent output_size, Kind kind, const char* operation) {
  check_pooled(x, kind, operation);
  return ops::adaptive_pooling_of(as_image(x.value(), kind), extent_of(output_size, kind, 1, operation),
                                  operation);
}

Tensor adaptive_average(const Tensor& x, Extent output_size, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  const Pooling pooling = adaptive(x, output_size, kind, operation);
  // One window of everything needs no order of memory, and its gradient is one number repeated.
  if (pooling.h.outputs == 1 && pooling.w.outputs == 1)
    return mean(x, kind == Kind::signal ? Dims{2} : Dims{2, 3}, true);
  return pool_average(x, pooling, kind, operation);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return convolve(x, weight, bias, options, Kind::image, "conv2d");
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return convolve(x, weight, bias, options, Kind::signal, "conv1d");
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return convolve_transposed(x, weight, bias, options, Kind::image, "conv_transpose2d");
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return convolve_transposed(x, weight, bias, options, Kind::signal, "conv_transpose1d");
}

Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options) {
  return max_pool(x, options, Kind::image, "max_pool2d");
}
Tensor max_pool1d(const Tensor& x, const MaxPoolOptions& options) {
  return max_pool(x, options, Kind::signal, "max_pool1d");
}
Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options) {
  return avg_pool(x, options, Kind::image, "avg_pool2d");
}
Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions& options) {
  return avg_pool(x, options, Kind::signal, "avg_pool1d");
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent output_size) {
  return adaptive_average(x, output_size, Kind::image, "adaptive_avg_pool2d");
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size) {
  return adaptive_average(x, output_size, Kind::signal, "adaptive_avg_pool1d");
}
Tensor adaptive_max_pool2d(const Tensor& x, Extent output_size) {
  const ProfileRange range("adaptive_max_pool2d");
  return pool_maximum(x, adaptive(x, output_size, Kind::image, "adaptive_max_pool2d"), Kind::image,
                      "adaptive_max_pool2d");
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  const ProfileRange range("interpolate");
  check_rank(x, Kind::image, "interpolate", "input", "(N, C, H, W)");
  TANDEM_CHECK(o.size.has_value() != o.scale_factor.has_value(),
               "interpolate: wants either size or scale_factor, and not both");
  TANDEM_CHECK(!o.align_corners || o.mode == Interpolation::bilinear,
               "interpolate: align_corners is for bilinear only");
  Extent size;
  Resize how{o.mode, o.align_corners};
  if (o.size) {
    size = *o.size;
  } else {
    how.factor_h = o.scale_factor->h;
    how.factor_w = o.scale_factor->w;
    const double h = static_cast<double>(x.dim(2)) * how.factor_h,
                 w = static_cast<double>(x.dim(3)) * how.factor_w;
    TANDEM_CHECK(how.factor_h > 0 && how.factor_w > 0 && h < 0x1p62 && w < 0x1p62,
                 "interpolate: scale_factor ", how.factor_h, 'x', how.factor_w, " of input ", x.shape(),
                 " must be positive and finite");
    size = {static_cast<std::int64_t>(h), static_cast<std::int64_t>(w)};
  }
  const Extent before{x.dim(2), x.dim(3)};
  return record(
      "interpolate", {x}, ops::resize(x.value(), size, how),
      [before, how](const Array& grad, Needs) -> Gradients { return {ops::resize_grad(grad, before, how)}; });
}

}  // namespace tandem

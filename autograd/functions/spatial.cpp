#include <tandem/autograd/autocast.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/reduce.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/functions/spatial.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile/profile.h>

namespace tandem {

using namespace autograd;

namespace {

// A signal (N, C, L) is treated as an image (N, C, 1, L). Its numbers stay where they are in memory.
enum class Kind { image, signal };

Array as_image(const Array& a, Kind kind) { return kind == Kind::signal && a.defined() ? a.unsqueeze(2) : a; }
Array as_given(const Array& a, Kind kind) { return kind == Kind::signal && a.defined() ? a.squeeze(2) : a; }

// Calls f on a batch: on x itself, or, when x has no batch dimension, on a batch that holds only x. The result then has
// no batch dimension either.
template <class F>
Tensor of_batch(const Tensor& x, Kind kind, F f) {
  if (!x.defined() || x.shape().ndim() != (kind == Kind::signal ? 2 : 3)) return f(x);
  return squeeze(f(unsqueeze(x, 0)), 0);
}

// An option for both dimensions of the image. For a signal the option gives the width, and the height gets `none`.
Extent extent_of(Extent given, Kind kind, std::int64_t none, const char* operation) {
  if (kind == Kind::image) return given;
  TANDEM_CHECK(given.h == given.w, operation, ": takes one number for each option, got ", given);
  return {none, given.w};
}

void check_rank(const Tensor& x, Kind kind, const char* operation, const char* what, const char* shape) {
  TANDEM_CHECK(x.defined(), operation, ": ", what, " is undefined");
  TANDEM_CHECK(x.shape().ndim() == (kind == Kind::signal ? 3 : 4), operation, ": ", what, " must be ", shape, ", got ",
               x.shape());
}

const char* batch_shape(Kind kind) {
  return kind == Kind::signal ? "(N, C, L) or (C, L)" : "(N, C, H, W) or (C, H, W)";
}

void check_convolution(const Tensor& x, const Tensor& weight, Kind kind, const char* operation) {
  check_rank(x, kind, operation, "input", batch_shape(kind));
  check_rank(weight, kind, operation, "weight",
             kind == Kind::signal ? "of 3 dimensions, with the kernel's size last"
                                  : "of 4 dimensions, with the kernel's height and width last");
}

Window window_of(const Tensor& weight, Extent stride, Extent padding, Extent dilation, std::int64_t groups, Kind kind,
                 const char* operation) {
  const Extent kernel{kind == Kind::signal ? 1 : weight.dim(2), weight.dim(-1)};
  return {kernel, extent_of(stride, kind, 1, operation), extent_of(padding, kind, 0, operation),
          extent_of(dilation, kind, 1, operation), groups};
}

std::optional<Array> value_of(const Tensor& bias) {
  return bias.defined() ? std::optional(bias.value()) : std::nullopt;
}

Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Kind kind,
                const char* operation) {
  const ProfileRange range(operation);
  check_convolution(input, weight, kind, operation);
  const Tensor x = autocast_low(input);
  const Window window =
      window_of(weight, options.stride, options.padding, options.dilation, options.groups, kind, operation);
  const Array image = as_image(x.value(), kind), kernel = as_image(weight.value(), kind);
  const Array y = ops::conv2d(image, kernel, value_of(bias), window);
  return record(operation, {x, weight, bias}, as_given(y, kind),
                [in = Saved(operation, image), w = Saved(operation, kernel), window, kind](const Array& given,
                                                                                           Needs needs) -> Gradients {
                  const Array grad = as_image(given, kind);
                  Gradients gradients(3);
                  if (needs[0])
                    gradients[0] = as_given(ops::conv2d_grad_input(grad, w, window, in.get().shape()), kind);
                  if (needs[1] || needs[2]) {
                    auto sums = ops::conv2d_grad_weight(in, grad, window, w.get().dim(0), needs[2], w.get().dtype());
                    gradients[1] = as_given(sums.weight, kind);
                    gradients[2] = std::move(sums.bias);
                  }
                  return gradients;
                });
}

// Whether the output padding is below the stride, as the operation needs it. An output padding that is only below the
// dilation is allowed too, but it reaches places that no step of the window reaches.
bool ends_within_stride(Extent output_padding, const Window& window) {
  const auto within = [](std::int64_t more, std::int64_t stride, std::int64_t dilation) {
    // Where `more` is below neither, the operation itself throws the Error.
    return more < stride || more >= dilation;
  };
  return within(output_padding.h, window.stride.h, window.dilation.h) &&
         within(output_padding.w, window.stride.w, window.dilation.w);
}

Tensor convolve_transposed(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvTransposeOptions& options, Kind kind, const char* operation);

// Computes the result without any padding. Then it cuts off the padding and appends zeros for the output padding.
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
  const ProfileRange range(operation);
  check_convolution(input, weight, kind, operation);
  const Tensor x = autocast_low(input);
  const Window window =
      window_of(weight, options.stride, options.padding, options.dilation, options.groups, kind, operation);
  const Extent more = extent_of(options.output_padding, kind, 0, operation);
  if (!ends_within_stride(more, window)) return padded_at_end(input, weight, bias, options, kind, operation);
  const Array image = as_image(x.value(), kind), kernel = as_image(weight.value(), kind);
  const Array y = ops::conv_transpose2d(image, kernel, value_of(bias), window, more);
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

// Max pooling. Writes the place of each maximum within its window to `places` when that is not null.
Tensor pool_maximum(const Tensor& x, const Pooling& pooling, Kind kind, const char* operation,
                    Array* places = nullptr) {
  const auto pooled = ops::max_pool2d(as_image(x.value(), kind), pooling);
  if (places != nullptr) *places = pooled.index;
  return record(operation, {x}, as_given(pooled.y, kind),
                [index = pooled.index, pooling, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::max_pool2d_grad(as_image(grad, kind), index, pooling), kind)};
                });
}

// Turns places within windows into positions in the image, row by row.
Array in_plane(const Array& places, const Pooling& pooling) {
  using functors::Add, functors::Affine;
  const auto [h, w] = std::pair(pooling.h, pooling.w);
  const auto begins = [&](const PoolAxis& axis, const Shape& shape) {
    std::vector<std::int64_t> values;
    for (std::int64_t o = 0; o < axis.outputs; ++o) values.push_back(axis.taps(o).begin);
    return Array::from(values, shape).to(places.device());
  };
  const Array of_window = places.to(DType::i64),
              width = ops::scalar(static_cast<double>(w.kernel), DType::i64, places.device());
  const auto along = [&](const BinaryOp& op, const PoolAxis& axis, const Shape& shape) {
    const Array steps = ops::map(Affine{static_cast<double>(axis.dilation)}, ops::zip(op, of_window, width));
    return ops::zip(Add{}, steps, begins(axis, shape));
  };
  const Array row = along(functors::FloorDivide{}, h, {h.outputs, 1}),
              column = along(functors::Remainder{}, w, {w.outputs});
  return ops::zip(Add{}, ops::map(Affine{static_cast<double>(w.size)}, row), column);
}

Tensor pool_average(const Tensor& x, const Pooling& pooling, Kind kind, const char* operation) {
  return record(operation, {x}, as_given(ops::avg_pool2d(as_image(x.value(), kind), pooling), kind),
                [pooling, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::avg_pool2d_grad(as_image(grad, kind), pooling), kind)};
                });
}

void check_pooled(const Tensor& x, Kind kind, const char* operation) {
  check_rank(x, kind, operation, "input", batch_shape(kind));
}

Pooling max_pooling(const Tensor& x, const MaxPoolOptions& o, Kind kind, const char* operation) {
  check_pooled(x, kind, operation);
  const Window window{extent_of(o.kernel_size, kind, 1, operation),
                      extent_of(o.stride.value_or(o.kernel_size), kind, 1, operation),
                      extent_of(o.padding, kind, 0, operation), extent_of(o.dilation, kind, 1, operation)};
  return ops::pooling_of(as_image(x.value(), kind), window, o.ceil_mode, operation);
}

Tensor max_pool(const Tensor& x, const MaxPoolOptions& o, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  return pool_maximum(x, max_pooling(x, o, kind, operation), kind, operation);
}

Tensor avg_pool(const Tensor& x, const AvgPoolOptions& o, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  check_pooled(x, kind, operation);
  TANDEM_CHECK(!o.divisor_override || *o.divisor_override != 0, operation, ": divisor_override must not be 0");
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
  return ops::adaptive_pooling_of(as_image(x.value(), kind), extent_of(output_size, kind, 1, operation), operation);
}

Tensor adaptive_average(const Tensor& x, Extent output_size, Kind kind, const char* operation) {
  const ProfileRange range(operation);
  const Pooling pooling = adaptive(x, output_size, kind, operation);
  // A single window over the whole image is a mean. It takes any order of memory; its gradient is one number repeated.
  if (pooling.h.outputs == 1 && pooling.w.outputs == 1)
    return mean(x, kind == Kind::signal ? Dims{2} : Dims{2, 3}, true);
  return pool_average(x, pooling, kind, operation);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return of_batch(x, Kind::image,
                  [&](const Tensor& batch) { return convolve(batch, weight, bias, options, Kind::image, "conv2d"); });
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return of_batch(x, Kind::signal,
                  [&](const Tensor& batch) { return convolve(batch, weight, bias, options, Kind::signal, "conv1d"); });
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return of_batch(x, Kind::image, [&](const Tensor& batch) {
    return convolve_transposed(batch, weight, bias, options, Kind::image, "conv_transpose2d");
  });
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return of_batch(x, Kind::signal, [&](const Tensor& batch) {
    return convolve_transposed(batch, weight, bias, options, Kind::signal, "conv_transpose1d");
  });
}

Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options) {
  return of_batch(x, Kind::image,
                  [&](const Tensor& batch) { return max_pool(batch, options, Kind::image, "max_pool2d"); });
}
Tensor max_pool1d(const Tensor& x, const MaxPoolOptions& options) {
  return of_batch(x, Kind::signal,
                  [&](const Tensor& batch) { return max_pool(batch, options, Kind::signal, "max_pool1d"); });
}
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const MaxPoolOptions& options) {
  constexpr const char* operation = "max_pool2d_with_indices";
  const ProfileRange range(operation);
  Array indices;
  const Tensor values = of_batch(x, Kind::image, [&](const Tensor& batch) {
    const Pooling pooling = max_pooling(batch, options, Kind::image, operation);
    const Tensor y = pool_maximum(batch, pooling, Kind::image, operation, &indices);
    indices = in_plane(indices, pooling);
    return y;
  });
  return {values, indices.reshape(values.shape())};
}
Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options) {
  return of_batch(x, Kind::image,
                  [&](const Tensor& batch) { return avg_pool(batch, options, Kind::image, "avg_pool2d"); });
}
Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions& options) {
  return of_batch(x, Kind::signal,
                  [&](const Tensor& batch) { return avg_pool(batch, options, Kind::signal, "avg_pool1d"); });
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent output_size) {
  return of_batch(x, Kind::image, [&](const Tensor& batch) {
    return adaptive_average(batch, output_size, Kind::image, "adaptive_avg_pool2d");
  });
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size) {
  return of_batch(x, Kind::signal, [&](const Tensor& batch) {
    return adaptive_average(batch, output_size, Kind::signal, "adaptive_avg_pool1d");
  });
}
Tensor adaptive_max_pool2d(const Tensor& x, Extent output_size) {
  constexpr const char* operation = "adaptive_max_pool2d";
  const ProfileRange range(operation);
  return of_batch(x, Kind::image, [&](const Tensor& batch) {
    return pool_maximum(batch, adaptive(batch, output_size, Kind::image, operation), Kind::image, operation);
  });
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  const ProfileRange range("interpolate");
  const Kind kind = x.defined() && x.shape().ndim() == 3 ? Kind::signal : Kind::image;
  check_rank(x, kind, "interpolate", "input", "(N, C, H, W) or (N, C, L)");
  TANDEM_CHECK(o.size.has_value() != o.scale_factor.has_value(),
               "interpolate: wants either size or scale_factor, and not both");
  TANDEM_CHECK(!o.align_corners || o.mode == Interpolation::bilinear,
               "interpolate: align_corners is for bilinear only");
  const Array image = as_image(x.value(), kind);
  Extent size;
  Resize how{o.mode, o.align_corners};
  if (o.size) {
    size = extent_of(*o.size, kind, 1, "interpolate");
  } else {
    TANDEM_CHECK(kind == Kind::image || o.scale_factor->h == o.scale_factor->w,
                 "interpolate: takes one scale_factor for input ", x.shape(), ", got ", o.scale_factor->h, 'x',
                 o.scale_factor->w);
    how.factor_h = kind == Kind::signal ? 1 : o.scale_factor->h;
    how.factor_w = o.scale_factor->w;
    const double h = static_cast<double>(image.dim(2)) * how.factor_h,
                 w = static_cast<double>(image.dim(3)) * how.factor_w;
    TANDEM_CHECK(how.factor_h > 0 && how.factor_w > 0 && h < 0x1p62 && w < 0x1p62, "interpolate: scale_factor ",
                 how.factor_h, 'x', how.factor_w, " of input ", x.shape(), " must be positive and finite");
    size = {static_cast<std::int64_t>(h), static_cast<std::int64_t>(w)};
  }
  const Extent before{image.dim(2), image.dim(3)};
  return record("interpolate", {x}, as_given(ops::resize(image, size, how), kind),
                [before, how, kind](const Array& grad, Needs) -> Gradients {
                  return {as_given(ops::resize_grad(as_image(grad, kind), before, how), kind)};
                });
}

}  // namespace tandem

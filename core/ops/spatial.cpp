#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/spatial.h>

namespace tandem::ops {

namespace {

void check_image(const Array& x, const char* operation, bool takes_bytes = false) {
  TANDEM_CHECK(x.ndim() == 4, operation, ": input must be (N, C, H, W), got ", x.shape());
  TANDEM_CHECK(is_floating(x.dtype()) || (takes_bytes && x.dtype() == DType::u8), operation, ": input must be floating",
               takes_bytes ? " or u8" : "", ", got ", x.dtype());
  TANDEM_CHECK(x.dim(1) > 0, operation, ": input ", x.shape(), " has no channels");
}

void check_window(const Window& w, const char* operation) {
  constexpr std::int64_t most = std::int64_t{1} << 30;  // with this limit, the product of two sizes fits in 64 bits
  const auto within = [&](Extent e, std::int64_t least) {
    return e.h >= least && e.w >= least && e.h <= most && e.w <= most;
  };
  TANDEM_CHECK(within(w.kernel, 1) && within(w.stride, 1) && within(w.dilation, 1) && within(w.padding, 0), operation,
               ": kernel ", w.kernel, ", stride ", w.stride, " and dilation ", w.dilation,
               " must be positive, padding ", w.padding, " not negative, and none above ", most);
}

std::int64_t reach(std::int64_t kernel, std::int64_t dilation) { return dilation * (kernel - 1) + 1; }

std::int64_t output_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         std::int64_t dilation) {
  return (size + 2 * padding - reach(kernel, dilation)) / stride + 1;
}

void check_kernel_fits(const Array& x, const Window& w, const char* operation) {
  check_window(w, operation);
  TANDEM_CHECK(x.dim(2) + 2 * w.padding.h >= reach(w.kernel.h, w.dilation.h) &&
                   x.dim(3) + 2 * w.padding.w >= reach(w.kernel.w, w.dilation.w),
               operation, ": input ", x.shape(), " with padding ", w.padding, " is smaller than the kernel ", w.kernel,
               " with dilation ", w.dilation);
}

// Checks the weight and bias of a convolution. `shape` says in words what the four dimensions of the weight are.
void check_weight(const Array& x, const Array& weight, const std::optional<Array>& bias, std::int64_t out_channels,
                  const Window& window, const char* operation, const char* shape) {
  TANDEM_CHECK(weight.ndim() == 4, operation, ": weight must be (", shape, "), got ", weight.shape());
  TANDEM_CHECK(is_floating(weight.dtype()) && (!bias || is_floating(bias->dtype())), operation,
               ": weight and bias must be floating, got ", weight.dtype(), " and ",
               bias ? bias->dtype() : weight.dtype());
  TANDEM_CHECK(weight.dtype() == x.dtype() || (size_of(x.dtype()) == 2 && weight.dtype() == DType::f32), operation,
               ": weight must have the input's dtype, or f32 where that has 16 bits; got ", weight.dtype(),
               " for an input of ", x.dtype());
  TANDEM_CHECK(window.kernel == Extent(weight.dim(2), weight.dim(3)), operation, ": kernel ", window.kernel,
               " is not that of weight ", weight.shape());
  TANDEM_CHECK(!bias || bias->shape() == Shape{out_channels}, operation, ": bias must have shape (", out_channels,
               "), got ", bias ? bias->shape() : Shape{});
  TANDEM_CHECK(weight.device() == x.device() && (!bias || bias->device() == x.device()), operation, ": input is on ",
               x.device(), ", weight on ", weight.device(), bias ? " and bias on " : "",
               bias ? bias->device() : Device{});
}

void check_groups(std::int64_t groups, const char* operation) {
  TANDEM_CHECK(groups > 0, operation, ": groups must be positive, got ", groups);
}

}  // namespace

Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window) {
  check_image(x, "conv2d");
  check_groups(window.groups, "conv2d");
  check_weight(x, weight, bias, weight.ndim() > 0 ? weight.dim(0) : 0, window, "conv2d",
               "out channels, in channels / groups, kernel h, kernel w");
  TANDEM_CHECK(x.dim(1) % window.groups == 0 && weight.dim(0) % window.groups == 0, "conv2d: ", window.groups,
               " groups must divide the ", x.dim(1), " channels of input ", x.shape(), " and the ", weight.dim(0),
               " output channels of weight ", weight.shape());
  TANDEM_CHECK(weight.dim(1) == x.dim(1) / window.groups, "conv2d: input ", x.shape(), " has ", x.dim(1),
               " channels, in ", window.groups, " groups; weight ", weight.shape(), " wants ", weight.dim(1),
               " in each");
  check_kernel_fits(x, window, "conv2d");
  const auto& [kernel, stride, padding, dilation, groups] = window;
  Array y = Array::empty_channels_last(
      {x.dim(0), weight.dim(0), output_size(x.dim(2), kernel.h, stride.h, padding.h, dilation.h),
       output_size(x.dim(3), kernel.w, stride.w, padding.w, dilation.w)},
      x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).conv2d(x.channels_last(), weight.contiguous(), bias, window, y);
  return y;
}

Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Shape& x_shape) {
  Array grad_x = Array::empty_channels_last(x_shape, grad_y.dtype(), grad_y.device());
  if (grad_y.numel() == 0) grad_x.fill(0);
  else if (grad_x.numel() > 0)
    backend(grad_y.device()).conv2d_grad_input(grad_y.channels_last(), weight.contiguous(), window, grad_x);
  return grad_x;
}

Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype) {
  const Shape shape{out_channels, x.dim(1) / window.groups, window.kernel.h, window.kernel.w};
  if (x.numel() == 0 || grad_y.numel() == 0)
    return {zeros(shape, dtype, x.device()), with_bias ? zeros({out_channels}, dtype, x.device()) : Array()};
  Conv2dWeightGrad grad{Array::empty(shape, dtype, x.device()),
                        with_bias ? Array::empty({out_channels}, dtype, x.device()) : Array()};
  backend(x.device())
      .conv2d_grad_weight(x.channels_last(), grad_y.channels_last(), window, grad.weight,
                          with_bias ? std::optional(grad.bias) : std::nullopt);
  return grad;
}

Array conv_transpose2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                       Extent output_padding) {
  constexpr const char* operation = "conv_transpose2d";
  check_image(x, operation);
  check_groups(window.groups, operation);
  check_weight(x, weight, bias, weight.ndim() == 4 ? weight.dim(1) * window.groups : 0, window, operation,
               "in channels, out channels / groups, kernel h, kernel w");
  TANDEM_CHECK(x.dim(1) % window.groups == 0, operation, ": ", window.groups, " groups must divide the ", x.dim(1),
               " channels of input ", x.shape());
  TANDEM_CHECK(weight.dim(0) == x.dim(1), operation, ": input ", x.shape(), " has ", x.dim(1), " channels, weight ",
               weight.shape(), " wants ", weight.dim(0));
  check_window(window, operation);
  const auto& [kernel, stride, padding, dilation, groups] = window;
  TANDEM_CHECK(
      0 <= output_padding.h && output_padding.h < stride.h && 0 <= output_padding.w && output_padding.w < stride.w,
      operation, ": output_padding ", output_padding, " must not be negative and be smaller than the stride ", stride,
      " or the dilation ", dilation);
  const auto size = [operation](std::int64_t in, std::int64_t k, std::int64_t s, std::int64_t p, std::int64_t d,
                                std::int64_t more) {
    std::int64_t steps = 0;
    TANDEM_CHECK(!__builtin_mul_overflow(in - 1, s, &steps) && steps < std::int64_t{1} << 61, operation, ": ", in,
                 " elements with stride ", s, " are more than any memory holds");
    return steps - 2 * p + reach(k, d) + more;
  };
  const std::int64_t h = size(x.dim(2), kernel.h, stride.h, padding.h, dilation.h, output_padding.h),
                     w = size(x.dim(3), kernel.w, stride.w, padding.w, dilation.w, output_padding.w);
  TANDEM_CHECK(x.dim(2) > 0 && x.dim(3) > 0 && h > 0 && w > 0, operation, ": input ", x.shape(), " with kernel ",
               kernel, ", stride ", stride, " and padding ", padding, " leaves an output of ", h, 'x', w);
  Array y = Array::empty_channels_last({x.dim(0), weight.dim(1) * groups, h, w}, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  backend(x.device()).conv2d_grad_input(x.channels_last(), weight.contiguous(), window, y);
  if (bias) add_(y, bias->reshape({1, bias->numel(), 1, 1}));
  return y;
}

Pooling pooling_of(const Array& x, const Window& window, bool ceil_mode, const char* operation) {
  check_image(x, operation);
  check_kernel_fits(x, window, operation);
  TANDEM_CHECK(2 * window.padding.h <= reach(window.kernel.h, window.dilation.h) &&
                   2 * window.padding.w <= reach(window.kernel.w, window.dilation.w),
               operation, ": padding ", window.padding, " is more than half of the kernel ", window.kernel);
  const auto axis = [&](std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                        std::int64_t dilation) {
    const std::int64_t beyond = ceil_mode ? stride - 1 : 0;
    std::int64_t outputs = (size + 2 * padding - reach(kernel, dilation) + beyond) / stride + 1;
    // The last window must start inside of the image.
    if (ceil_mode && (outputs - 1) * stride >= size + padding) --outputs;
    return PoolAxis{size, outputs, kernel, stride, padding, dilation};
  };
  return {axis(x.dim(2), window.kernel.h, window.stride.h, window.padding.h, window.dilation.h),
          axis(x.dim(3), window.kernel.w, window.stride.w, window.padding.w, window.dilation.w)};
}

Pooling adaptive_pooling_of(const Array& x, Extent outputs, const char* operation) {
  check_image(x, operation);
  TANDEM_CHECK(x.dim(2) > 0 && x.dim(3) > 0, operation, ": input ", x.shape(), " has no pixels");
  const auto axis = [&](std::int64_t size, std::int64_t wanted) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    TANDEM_CHECK(wanted >= -1, operation, ": output size ", outputs,
                 " must not be negative; keep_size (-1) keeps the input's");
    TANDEM_CHECK(wanted <= most && size <= most, operation, ": input ", x.shape(), " to ", outputs,
                 " is more than any memory holds");
    PoolAxis a{size, wanted < 0 ? size : wanted};
    a.adaptive = true;
    for (std::int64_t o = 0; o < a.outputs; ++o) a.kernel = std::max(a.kernel, a.taps(o).last);
    return a;
  };
  return {axis(x.dim(2), outputs.h), axis(x.dim(3), outputs.w)};
}

MaxPool max_pool2d(const Array& x, const Pooling& pooling) {
  const Shape shape{x.dim(0), x.dim(1), pooling.h.outputs, pooling.w.outputs};
  const std::int64_t places = pooling.h.kernel * pooling.w.kernel;
  TANDEM_CHECK(places < std::int64_t{1} << 31, "max_pool2d: kernel ", Extent(pooling.h.kernel, pooling.w.kernel),
               " has too many elements");
  MaxPool out{Array::empty_channels_last(shape, x.dtype(), x.device()),
              Array::empty_channels_last(shape, places <= 256 ? DType::u8 : DType::i32, x.device())};
  if (out.y.numel() > 0) backend(x.device()).max_pool2d(x.channels_last(), pooling, out.y, out.index);
  return out;
}

namespace {

Array empty_before(const Array& grad_y, const Pooling& pooling) {
  return Array::empty_channels_last({grad_y.dim(0), grad_y.dim(1), pooling.h.size, pooling.w.size}, grad_y.dtype(),
                                    grad_y.device());
}

}  // namespace

Array max_pool2d_grad(const Array& grad_y, const Array& index, const Pooling& pooling) {
  Array grad_x = empty_before(grad_y, pooling);
  if (grad_y.numel() == 0) grad_x.fill(0);
  else backend(grad_y.device()).max_pool2d_grad(grad_y.channels_last(), index, pooling, grad_x);
  return grad_x;
}

Array avg_pool2d(const Array& x, const Pooling& pooling) {
  const Shape shape{x.dim(0), x.dim(1), pooling.h.outputs, pooling.w.outputs};
  Array y = Array::empty_channels_last(shape, x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).avg_pool2d(x.channels_last(), pooling, y);
  return y;
}

Array avg_pool2d_grad(const Array& grad_y, const Pooling& pooling) {
  Array grad_x = empty_before(grad_y, pooling);
  if (grad_y.numel() == 0) grad_x.fill(0);
  else backend(grad_y.device()).avg_pool2d_grad(grad_y.channels_last(), pooling, grad_x);
  return grad_x;
}

Array resize(const Array& x, Extent size, const Resize& how) {
  check_image(x, "interpolate", how.mode == Interpolation::nearest);
  TANDEM_CHECK(x.dim(2) > 0 && x.dim(3) > 0 && size.h > 0 && size.w > 0, "interpolate: input ", x.shape(),
               " and output ", size, " must have pixels");
  Array y = Array::empty_channels_last({x.dim(0), x.dim(1), size.h, size.w}, x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).resize(x.channels_last(), how, y);
  return y;
}

Array resize_grad(const Array& grad_y, Extent x_size, const Resize& how) {
  Array grad_x =
      Array::empty_channels_last({grad_y.dim(0), grad_y.dim(1), x_size.h, x_size.w}, grad_y.dtype(), grad_y.device());
  if (grad_x.numel() > 0) backend(grad_y.device()).resize_grad(grad_y.channels_last(), how, grad_x);
  return grad_x;
}

}  // namespace tandem::ops

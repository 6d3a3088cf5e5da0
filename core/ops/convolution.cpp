#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/convolution.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/image_checks.h>
#include <tandem/core/ops/into.h>
#include <tandem/core/ops/reduce.h>

namespace tandem::ops {

namespace {

std::int64_t output_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         std::int64_t dilation) {
  return (size + 2 * padding - reach(kernel, dilation)) / stride + 1;
}

// Checks the weight and bias of a convolution. `shape` says in words what the four dimensions of the weight are.
void check_weight(const Array& x, const Array& weight, const std::optional<Array>& bias, std::int64_t out_channels,
                  const Window& window, const char* operation, const char* shape) {
  TANDEM_CHECK(window.groups > 0, operation, ": groups must be positive, got ", window.groups);
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

void check_places(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                  const std::optional<Array>& grad_bias) {
  const Shape shape{grad_y.dim(1), x.dim(1) / window.groups, window.kernel.h, window.kernel.w};
  TANDEM_CHECK(grad_weight.shape() == shape && (!grad_bias || grad_bias->shape() == Shape{grad_y.dim(1)}),
               "conv2d: the gradients of a weight ", shape, " and its bias can't be written into ", grad_weight.shape(),
               grad_bias ? " and " : "", grad_bias ? grad_bias->shape() : Shape{});
}

// A weight as the back-end of its device takes it: row-major on the CPU, row-major or channels last on a GPU.
Array filter(const Array& weight) {
  return !weight.device().is_cpu() && weight.is_channels_last() ? weight : weight.contiguous();
}

}  // namespace

Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window) {
  check_image(x, "conv2d");
  check_weight(x, weight, bias, weight.ndim() > 0 ? weight.dim(0) : 0, window, "conv2d",
               "out channels, in channels / groups, kernel h, kernel w");
  TANDEM_CHECK(x.dim(1) % window.groups == 0 && weight.dim(0) % window.groups == 0, "conv2d: ", window.groups,
               " groups must divide the ", x.dim(1), " channels of input ", x.shape(), " and the ", weight.dim(0),
               " output channels of weight ", weight.shape());
  TANDEM_CHECK(weight.dim(1) == x.dim(1) / window.groups, "conv2d: input ", x.shape(), " has ", x.dim(1),
               " channels, the layer with weight ", weight.shape(), " takes ", weight.dim(1) * window.groups,
               window.groups > 1 ? ", in groups of " + std::to_string(weight.dim(1)) : "");
  check_kernel_fits(x, window, "conv2d");
  const auto& [kernel, stride, padding, dilation, groups] = window;
  Array y = Array::empty_channels_last(
      {x.dim(0), weight.dim(0), output_size(x.dim(2), kernel.h, stride.h, padding.h, dilation.h),
       output_size(x.dim(3), kernel.w, stride.w, padding.w, dilation.w)},
      x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).conv2d(x.channels_last(), filter(weight), bias, window, y);
  return y;
}

Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Shape& x_shape) {
  Array grad_x = Array::empty_channels_last(x_shape, grad_y.dtype(), grad_y.device());
  if (grad_y.numel() == 0) grad_x.fill(0);
  else if (grad_x.numel() > 0)
    backend(grad_y.device()).conv2d_grad_input(grad_y.channels_last(), filter(weight), window, grad_x);
  return grad_x;
}

Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype) {
  Conv2dWeightGrad grad = empty_weight_grad(x, window, out_channels, with_bias, dtype);
  conv2d_grad_weight_into(x, grad_y, window, grad.weight, with_bias ? std::optional(grad.bias) : std::nullopt);
  return grad;
}

Conv2dWeightGrad empty_weight_grad(const Array& x, const Window& window, std::int64_t out_channels, bool with_bias,
                                   DType dtype) {
  const Shape shape{out_channels, x.dim(1) / window.groups, window.kernel.h, window.kernel.w};
  return {x.device().is_cpu() ? Array::empty(shape, dtype) : Array::empty_channels_last(shape, dtype, x.device()),
          with_bias ? Array::empty({out_channels}, dtype, x.device()) : Array()};
}

void conv2d_grad_weight_into(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                             const std::optional<Array>& grad_bias) {
  check_places(x, grad_y, window, grad_weight, grad_bias);
  if (x.numel() > 0 && grad_y.numel() > 0)
    return backend(x.device())
        .conv2d_grad_weight(x.channels_last(), grad_y.channels_last(), window, grad_weight, grad_bias);
  Array(grad_weight).fill(0);  // an empty image may still have outputs, which are the bias
  if (grad_bias) Array(*grad_bias).copy_from(reduce(Reduction::sum, grad_y, {0, 2, 3}));
}

Array conv2d_grads_into(const Array& x, const Array& grad_y, const Array& weight, const Window& window,
                        const Array& grad_weight, const std::optional<Array>& grad_bias, Array sum) {
  if (x.numel() == 0 || grad_y.numel() == 0) {
    conv2d_grad_weight_into(x, grad_y, window, grad_weight, grad_bias);
    return sum.defined() ? sum : conv2d_grad_input(grad_y, weight, window, x.shape());
  }
  check_places(x, grad_y, window, grad_weight, grad_bias);
  const Array pixels = x.channels_last(), grad = grad_y.channels_last(), taps = filter(weight);
  auto& device = backend(x.device());
  const bool adds = sum.defined() && sum.is_channels_last() && sum.dtype() == grad_y.dtype();
  const auto empty = [&] { return Array::empty_channels_last(x.shape(), grad_y.dtype(), grad_y.device()); };
  Array grad_x = adds ? sum : empty();
  const bool in_one_pass = device.conv2d_grads(pixels, grad, taps, window, adds, grad_x, grad_weight, grad_bias);
  if (!in_one_pass) {
    if (adds) grad_x = empty();
    device.conv2d_grad_input(grad, taps, window, grad_x);
    device.conv2d_grad_weight(pixels, grad, window, grad_weight, grad_bias);
  }
  if (!sum.defined() || (in_one_pass && adds)) return grad_x;
  add_(sum, grad_x);
  return sum;
}

Array conv_transpose2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                       Extent output_padding) {
  constexpr const char* operation = "conv_transpose2d";
  check_image(x, operation);
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
      operation, ": output_padding ", output_padding, " must be at least 0 and smaller than the stride ", stride,
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
  backend(x.device()).conv2d_grad_input(x.channels_last(), filter(weight), window, y);
  if (bias) add_(y, bias->reshape({1, bias->numel(), 1, 1}));
  return y;
}

}  // namespace tandem::ops

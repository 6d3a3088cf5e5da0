#include <tandem/core/ops_create.h>
#include <tandem/core/ops_spatial.h>

namespace tandem::ops {

namespace {

std::int64_t output_size(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         std::int64_t dilation) {
  return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

Shape output_shape(const Array& x, std::int64_t channels, const Window& w, const char* operation) {
  TANDEM_CHECK(w.kernel.h > 0 && w.kernel.w > 0 && w.stride.h > 0 && w.stride.w > 0 && w.dilation.h > 0 &&
                   w.dilation.w > 0 && w.padding.h >= 0 && w.padding.w >= 0,
               operation, ": kernel ", w.kernel, ", stride ", w.stride, " and dilation ", w.dilation,
               " must be positive and padding ", w.padding, " not negative");
  const auto needed_h = w.dilation.h * (w.kernel.h - 1) + 1, needed_w = w.dilation.w * (w.kernel.w - 1) + 1;
  TANDEM_CHECK(x.dim(2) + 2 * w.padding.h >= needed_h && x.dim(3) + 2 * w.padding.w >= needed_w, operation,
               ": input ", x.shape(), " with padding ", w.padding, " is smaller than the kernel ", w.kernel,
               " with dilation ", w.dilation);
  return {x.dim(0), channels, output_size(x.dim(2), w.kernel.h, w.stride.h, w.padding.h, w.dilation.h),
          output_size(x.dim(3), w.kernel.w, w.stride.w, w.padding.w, w.dilation.w)};
}

void check_image(const Array& x, const char* operation) {
  TANDEM_CHECK(x.rank() == 4, operation, ": input must be (N, C, H, W), got ", x.shape());
  TANDEM_CHECK(is_floating(x.dtype()), operation, ": input must be floating, got ", x.dtype());
  TANDEM_CHECK(x.dim(1) > 0, operation, ": input ", x.shape(), " has no channels");
}

}  // namespace

Array conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window) {
  check_image(x, "conv2d");
  TANDEM_CHECK(weight.rank() == 4,
               "conv2d: weight must be (out channels, in channels, kernel h, kernel w), got ",
               weight.shape());
  TANDEM_CHECK(weight.dim(1) == x.dim(1), "conv2d: input ", x.shape(), " has ", x.dim(1),
               " channels, weight ", weight.shape(), " wants ", weight.dim(1));
  TANDEM_CHECK(is_floating(weight.dtype()), "conv2d: weight must be floating, got ", weight.dtype());
  TANDEM_CHECK(window.kernel == Extent(weight.dim(2), weight.dim(3)), "conv2d: kernel ", window.kernel,
               " is not that of weight ", weight.shape());
  TANDEM_CHECK(!bias || bias->shape() == Shape{weight.dim(0)}, "conv2d: bias must have shape (",
               weight.dim(0), "), got ", bias ? bias->shape() : Shape{});
  TANDEM_CHECK(weight.device() == x.device() && (!bias || bias->device() == x.device()),
               "conv2d: input is on ", x.device(), ", weight on ", weight.device());
  Array y =
      Array::empty_channels_last(output_shape(x, weight.dim(0), window, "conv2d"), x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).conv2d(x.channels_last(), weight.contiguous(), bias, window, y);
  return y;
}

Array conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                        const Shape& x_shape) {
  Array grad_x = Array::empty_channels_last(x_shape, grad_y.dtype(), grad_y.device());
  if (grad_x.numel() > 0)
    backend(grad_y.device()).conv2d_grad_input(grad_y.channels_last(), weight.contiguous(), window, grad_x);
  return grad_x;
}

Conv2dWeightGrad conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                    std::int64_t out_channels, bool with_bias, DType dtype) {
  const Shape shape{out_channels, x.dim(1), window.kernel.h, window.kernel.w};
  if (x.numel() == 0 || grad_y.numel() == 0)
    return {zeros(shape, dtype, x.device()), with_bias ? zeros({out_channels}, dtype, x.device()) : Array()};
  Conv2dWeightGrad grad{Array::empty(shape, dtype, x.device()),
                        with_bias ? Array::empty({out_channels}, dtype, x.device()) : Array()};
  backend(x.device())
      .conv2d_grad_weight(x.channels_last(), grad_y.channels_last(), window, grad.weight,
                          with_bias ? std::optional(grad.bias) : std::nullopt);
  return grad;
}

MaxPool max_pool2d(const Array& x, const Window& window) {
  check_image(x, "max_pool2d");
  TANDEM_CHECK(window.kernel.h * window.kernel.w <= 256, "max_pool2d: kernel ", window.kernel,
               " is larger than 256 elements");
  TANDEM_CHECK(2 * window.padding.h <= window.kernel.h && 2 * window.padding.w <= window.kernel.w,
               "max_pool2d: padding ", window.padding, " is more than half of the kernel ", window.kernel);
  const Shape shape = output_shape(x, x.dim(1), window, "max_pool2d");
  MaxPool out{Array::empty_channels_last(shape, x.dtype(), x.device()),
              Array::empty_channels_last(shape, DType::u8, x.device())};
  if (out.y.numel() > 0) backend(x.device()).max_pool2d(x.channels_last(), window, out.y, out.index);
  return out;
}

Array max_pool2d_grad(const Array& grad_y, const Array& index, const Window& window, const Shape& x_shape) {
  Array grad_x = Array::empty_channels_last(x_shape, grad_y.dtype(), grad_y.device());
  backend(grad_y.device()).max_pool2d_grad(grad_y.channels_last(), index, window, grad_x);
  return grad_x;
}

}  // namespace tandem::ops

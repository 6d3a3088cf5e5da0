#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/image_checks.h>
#include <tandem/core/ops/pooling.h>

namespace tandem::ops {

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
    // The last window must start inside the image.
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
                 " must not be negative, except keep_size (-1), which keeps the input's size");
    TANDEM_CHECK(wanted <= most && size <= most, operation, ": input ", x.shape(), " to ", outputs,
                 " does not fit into any memory");
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

}  // namespace tandem::ops

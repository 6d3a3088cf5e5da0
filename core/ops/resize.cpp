#include <tandem/core/backend/backend.h>
#include <tandem/core/ops/image_checks.h>
#include <tandem/core/ops/resize.h>

namespace tandem::ops {

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

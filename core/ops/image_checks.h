// Checks of images and windows that convolution, pooling and resizing share. `operation` is the name in errors.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>

namespace tandem::ops {

// Throws an Error unless x is floating, or u8 if `takes_bytes`, and (N, C, H, W) with at least one channel.
inline void check_image(const Array& x, const char* operation, bool takes_bytes = false) {
  TANDEM_CHECK(x.ndim() == 4, operation, ": input must be (N, C, H, W), got ", x.shape());
  TANDEM_CHECK(is_floating(x.dtype()) || (takes_bytes && x.dtype() == DType::u8), operation, ": input must be floating",
               takes_bytes ? " or u8" : "", ", got ", x.dtype());
  TANDEM_CHECK(x.dim(1) > 0, operation, ": input ", x.shape(), " has no channels");
}

// Throws an Error unless all sizes of the window are in the valid range.
inline void check_window(const Window& w, const char* operation) {
  constexpr std::int64_t most = std::int64_t{1} << 30;  // with this limit, the product of two sizes fits in 64 bits
  const auto within = [&](Extent e, std::int64_t least) {
    return e.h >= least && e.w >= least && e.h <= most && e.w <= most;
  };
  TANDEM_CHECK(within(w.kernel, 1) && within(w.stride, 1) && within(w.dilation, 1) && within(w.padding, 0), operation,
               ": kernel ", w.kernel, ", stride ", w.stride, " and dilation ", w.dilation,
               " must be positive, padding ", w.padding, " not negative, and none above ", most);
}

// Returns the number of input elements that a kernel spans.
inline std::int64_t reach(std::int64_t kernel, std::int64_t dilation) { return dilation * (kernel - 1) + 1; }

// Throws an Error unless the kernel fits into the padded image.
inline void check_kernel_fits(const Array& x, const Window& w, const char* operation) {
  check_window(w, operation);
  TANDEM_CHECK(x.dim(2) + 2 * w.padding.h >= reach(w.kernel.h, w.dilation.h) &&
                   x.dim(3) + 2 * w.padding.w >= reach(w.kernel.w, w.dilation.w),
               operation, ": input ", x.shape(), " with padding ", w.padding, " is smaller than the kernel ", w.kernel,
               " with dilation ", w.dilation);
}

}  // namespace tandem::ops

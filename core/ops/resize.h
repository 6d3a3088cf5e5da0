// Resizes images (N, C, H, W). Results are channels last, in the dtype of x.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/formulas/resize.h>
#include <tandem/core/formulas/window.h>

namespace tandem::ops {

// resize() changes height and width of x. resize_grad() computes the gradient.
Array resize(const Array& x, Extent size, const Resize& how);
Array resize_grad(const Array& grad_y, Extent x_size, const Resize& how);

}  // namespace tandem::ops

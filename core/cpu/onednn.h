// oneDNN behind four functions: the only place that knows its API, whose versions 2 and 3 differ.
#pragma once

#include <tandem/core/backend.h>

namespace tandem::onednn {

// Each returns false, having done nothing, where oneDNN has no implementation for these dtypes on this processor.
// Arguments as in Backend.
bool matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y);
bool conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
            const Array& y);
bool conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window, const Array& grad_x);
bool conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                        const std::optional<Array>& grad_bias);

}  // namespace tandem::onednn

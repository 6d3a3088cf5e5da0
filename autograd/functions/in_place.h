// Element-wise operations that overwrite their first operand and return it. Each computes the same as the function
// without the underscore. Shape and dtype don't change. In-place ReLU saves memory after an operation that does not
// need its own output for backward. Throws an Error if the result has a different shape or a higher kind of dtype than
// the first operand. While gradients are recorded, it also throws an Error if the first operand is a leaf that requires
// a gradient, or a view. An operation may overwrite a value that a backward pass needs, but that backward pass then
// throws an Error.
#pragma once

#include <tandem/autograd/functions/elementwise.h>

namespace tandem {

Tensor add_(const Tensor& x, const Tensor& other, double alpha = 1);
Tensor add_(const Tensor& x, Number number);
Tensor sub_(const Tensor& x, const Tensor& other, double alpha = 1);
Tensor sub_(const Tensor& x, Number number);
Tensor mul_(const Tensor& x, const Tensor& other);
Tensor mul_(const Tensor& x, Number number);
Tensor div_(const Tensor& x, const Tensor& other);
Tensor div_(const Tensor& x, Number number);
// In-place operators. All handles of x see the change, as in PyTorch. x = x + y makes a new Tensor instead.
inline Tensor operator+=(const Tensor& x, const Tensor& other) { return add_(x, other); }
inline Tensor operator-=(const Tensor& x, const Tensor& other) { return sub_(x, other); }
inline Tensor operator*=(const Tensor& x, const Tensor& other) { return mul_(x, other); }
inline Tensor operator/=(const Tensor& x, const Tensor& other) { return div_(x, other); }
inline Tensor operator+=(const Tensor& x, Number number) { return add_(x, number); }
inline Tensor operator-=(const Tensor& x, Number number) { return sub_(x, number); }
inline Tensor operator*=(const Tensor& x, Number number) { return mul_(x, number); }
inline Tensor operator/=(const Tensor& x, Number number) { return div_(x, number); }
Tensor pow_(const Tensor& x, Number exponent);
Tensor clamp_(const Tensor& x, std::optional<Number> min = {}, std::optional<Number> max = {});
Tensor neg_(const Tensor& x);
Tensor abs_(const Tensor& x);
Tensor square_(const Tensor& x);
Tensor reciprocal_(const Tensor& x);
Tensor floor_(const Tensor& x);
Tensor ceil_(const Tensor& x);
Tensor trunc_(const Tensor& x);
Tensor round_(const Tensor& x);
Tensor exp_(const Tensor& x);
Tensor log_(const Tensor& x);
Tensor sqrt_(const Tensor& x);
Tensor rsqrt_(const Tensor& x);
Tensor relu_(const Tensor& x);
Tensor leaky_relu_(const Tensor& x, double negative_slope = 0.01);
Tensor elu_(const Tensor& x, double alpha = 1);
Tensor sigmoid_(const Tensor& x);
Tensor tanh_(const Tensor& x);
Tensor silu_(const Tensor& x);
Tensor hardswish_(const Tensor& x);
Tensor hardsigmoid_(const Tensor& x);
Tensor hardtanh_(const Tensor& x, double min_val = -1, double max_val = 1);
Tensor relu6_(const Tensor& x);
Tensor threshold_(const Tensor& x, double threshold, double value);
Tensor selu_(const Tensor& x);
Tensor celu_(const Tensor& x, double alpha = 1);
Tensor mish_(const Tensor& x);

Tensor fill_(const Tensor& x, Number value);
Tensor zero_(const Tensor& x);
// `source` may have any dtype and device. It broadcasts to the shape of x.
Tensor copy_(const Tensor& x, const Tensor& source);

}  // namespace tandem

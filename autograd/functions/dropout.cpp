#include <tandem/autograd/functions/dropout.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/operation.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/ops.h>

namespace tandem {

using namespace autograd;

namespace {

// Returns whether this call of dropout changes anything. Throws an Error if p or the dtype of x is not allowed.
bool drops(const char* name, const Tensor& x, double p, bool training) {
  TANDEM_CHECK(p >= 0 && p <= 1, name, ": p must be from 0 to 1, got ", p);
  TANDEM_CHECK(is_floating(x.dtype()) || !training, name, ": needs a floating tensor, got ", x.shape(), ' ', x.dtype());
  return training && p > 0;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  const Scope scope("dropout");
  if (!drops("dropout", x, p, training)) return x;
  const DropoutKey key = ops::draw_dropout_key(x.device());
  const bool channels_last = x.value().is_channels_last() && !x.value().is_contiguous();
  return record("dropout", {x}, ops::dropout(x.value(), key, p, channels_last),
                [key, p, channels_last](const Array& grad, Needs) -> Gradients {
                  return {ops::dropout(grad, key, p, channels_last)};
                });
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  const Scope scope("dropout2d");
  TANDEM_CHECK(x.shape().ndim() >= 2, "dropout2d: input must be (N, C, ...), got ", x.shape());
  if (!drops("dropout2d", x, p, training)) return x;
  Shape channels = Shape::filled(x.shape().ndim(), 1);
  channels[0] = x.dim(0);
  channels[1] = x.dim(1);
  const Array ones = ops::ones(channels, x.dtype(), x.device());
  return mul(x, Tensor(ops::dropout(ones, ops::draw_dropout_key(x.device()), p, false)));
}

}  // namespace tandem

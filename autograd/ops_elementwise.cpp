#include <tandem/autograd/autocast.h>
#include <tandem/autograd/operation.h>
#include <tandem/autograd/ops_elementwise.h>
#include <tandem/core/ops.h>
#include <tandem/core/profile.h>

namespace tandem {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

template <class F>
Tensor unary(const char* name, const F& op, const Tensor& x) {
  const ProfileRange range(name);
  Array y = ops::map(op, x.value());
  Saved saved;
  if constexpr (F::saves == Saves::input) saved = Saved(name, x.value());
  if constexpr (F::saves == Saves::output) saved = Saved(name, y);
  return record(name, {x}, y, [op, saved](const Array& grad, Needs) -> Gradients {
    if constexpr (F::saves == Saves::nothing) return {ops::map_grad(op, grad, grad)};
    else return {ops::map_grad(op, saved, grad)};
  });
}

template <class F>
Tensor binary(const char* name, const F& op, const Tensor& a, const Tensor& b) {
  const ProfileRange range(name);
  constexpr bool saves = F::saves != Saves::nothing;
  const Saved x = saves ? Saved(name, a.value()) : Saved(), y = saves ? Saved(name, b.value()) : Saved();
  // Without saved values a gradient still needs the operands' shapes.
  return record(name, {a, b}, ops::zip(op, a.value(), b.value()),
                [op, x, y, shape_a = a.shape(), shape_b = b.shape(), dtype_a = a.dtype(),
                 dtype_b = b.dtype()](const Array& grad, Needs needs) -> Gradients {
                  Gradients gradients(2);
                  const auto gradient = [&](int operand) {
                    if constexpr (saves) return ops::zip_grad(op, operand, x, y, grad);
                    else {
                      const double factor =
                          operand == 0 ? op.derivative_a(0.0, 0.0) : op.derivative_b(0.0, 0.0);
                      const Array scaled = factor == 1 ? grad : ops::map(functors::Affine{factor, 0}, grad);
                      return ops::sum_to(scaled, operand == 0 ? shape_a : shape_b);
                    }
                  };
                  if (needs[0]) gradients[0] = gradient(0).to(dtype_a);
                  if (needs[1]) gradients[1] = gradient(1).to(dtype_b);
                  return gradients;
                });
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary("add", functors::Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary("sub", functors::Sub{}, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", functors::Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary("div", functors::Div{}, a, b); }
Tensor affine(const Tensor& x, double scale, double shift) {
  return unary("affine", functors::Affine{scale, shift}, x);
}
Tensor neg(const Tensor& x) { return unary("neg", functors::Affine{-1, 0}, x); }
Tensor relu(const Tensor& x) { return unary("relu", functors::Relu{}, x); }
Tensor exp(const Tensor& x) { return unary("exp", functors::Exp{}, autocast_f32(x)); }
Tensor log(const Tensor& x) { return unary("log", functors::Log{}, autocast_f32(x)); }
Tensor sqrt(const Tensor& x) { return unary("sqrt", functors::Sqrt{}, x); }
Tensor sigmoid(const Tensor& x) { return unary("sigmoid", functors::Sigmoid{}, x); }
Tensor tanh(const Tensor& x) { return unary("tanh", functors::Tanh{}, x); }

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const ProfileRange range("cast");
  return record("cast", {x}, x.value().to(dtype),
                [from = x.dtype()](const Array& grad, Needs) -> Gradients { return {grad.to(from)}; });
}

}  // namespace tandem

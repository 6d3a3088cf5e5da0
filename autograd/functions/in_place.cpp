#include <tandem/autograd/elementwise_gradients.h>
#include <tandem/autograd/functions/in_place.h>
#include <tandem/autograd/with_power.h>
#include <tandem/core/base/scope.h>

namespace tandem {

using namespace autograd;

namespace {

template <class F>
Tensor unary_(const char* name, const F& op, const Tensor& x) {
  const Scope scope(name);
  autograd::check_in_place(name, {x});
  const bool needs = is_recorded(x);
  Saved saved;
  if constexpr (F::saves == Saves::input)
    if (needs) saved = Saved(name, x.value().clone());  // a copy, because the operation overwrites the input
  ops::map_(name, op, x.value());
  if constexpr (F::saves == Saves::output)
    if (needs) saved = Saved(name, x.value());
  if (needs) autograd::record_in_place(name, {x}, autograd::unary_backward(op, saved));
  return x;
}

template <class F>
Tensor binary_(const char* name, const F& op, const Tensor& x, const Tensor& other) {
  const Scope scope(name);
  autograd::check_in_place(name, {x, other});
  const bool needs_x = is_recorded(x), needs_other = is_recorded(other);
  if (!needs_x && !needs_other) {
    ops::zip_(name, op, x.value(), other.value());
    return x;
  }
  SavedOperands<F> saved(name, x.value(), needs_x, other.value(), needs_other);
  // The operation overwrites x, so the backward pass needs a copy of it. If both operands share the same memory, both
  // saved values must be copies.
  const bool is_same = x.value().storage() == other.value().storage();
  if (saved.a.is_set()) saved.a = Saved(name, x.value().clone());
  if (saved.b.is_set() && is_same) saved.b = Saved(name, other.value().clone());
  ops::zip_(name, op, x.value(), other.value());
  autograd::record_in_place(name, {x, other},
                            autograd::binary_backward(op, std::move(saved), x.value(), other.value()));
  return x;
}

void check_number(const char* name, const Tensor& x, Number number) {
  TANDEM_CHECK(is_floating(x.dtype()) || number.is_integer, name, ": ", x.dtype(), " with the number ", number.value,
               " gives f32, which a tensor of ", x.dtype(), " can't store");
}

}  // namespace

Tensor add_(const Tensor& x, const Tensor& other, double alpha) {
  return binary_("add_", functors::Add{alpha}, x, other);
}
Tensor sub_(const Tensor& x, const Tensor& other, double alpha) {
  return binary_("sub_", functors::Add{-alpha}, x, other);
}
Tensor mul_(const Tensor& x, const Tensor& other) { return binary_("mul_", functors::Mul{}, x, other); }
Tensor div_(const Tensor& x, const Tensor& other) { return binary_("div_", functors::Div{}, x, other); }
Tensor add_(const Tensor& x, Number number) {
  check_number("add_", x, number);
  return unary_("add_", functors::Affine{1, number.value}, x);
}
Tensor sub_(const Tensor& x, Number number) {
  check_number("sub_", x, number);
  return unary_("sub_", functors::Affine{1, -number.value}, x);
}
Tensor mul_(const Tensor& x, Number number) {
  check_number("mul_", x, number);
  return unary_("mul_", functors::Affine{number.value}, x);
}
Tensor div_(const Tensor& x, Number number) { return unary_("div_", functors::DivideBy{number.value}, x); }
Tensor pow_(const Tensor& x, Number exponent) {
  check_number("pow_", x, exponent);
  return autograd::with_power(exponent.value, is_floating(x.dtype()),
                              [&](const auto& power) { return unary_("pow_", power, x); });
}
Tensor clamp_(const Tensor& x, std::optional<Number> min, std::optional<Number> max) {
  TANDEM_CHECK(min || max, "clamp_: at least one of min and max must be given");
  functors::Clamp limits;
  if (min) check_number("clamp_", x, *min), limits.low = min->value;
  if (max) check_number("clamp_", x, *max), limits.high = max->value;
  return unary_("clamp_", limits, x);
}
Tensor neg_(const Tensor& x) { return unary_("neg_", functors::Affine{-1}, x); }
Tensor abs_(const Tensor& x) { return unary_("abs_", functors::Abs{}, x); }
Tensor square_(const Tensor& x) { return unary_("square_", functors::Square{}, x); }
Tensor reciprocal_(const Tensor& x) { return unary_("reciprocal_", functors::Reciprocal{}, x); }
Tensor floor_(const Tensor& x) { return unary_("floor_", functors::Floor{}, x); }
Tensor ceil_(const Tensor& x) { return unary_("ceil_", functors::Ceil{}, x); }
Tensor trunc_(const Tensor& x) { return unary_("trunc_", functors::Trunc{}, x); }
Tensor round_(const Tensor& x) { return unary_("round_", functors::Round{}, x); }
Tensor exp_(const Tensor& x) { return unary_("exp_", functors::Exp{}, x); }
Tensor log_(const Tensor& x) { return unary_("log_", functors::Log{}, x); }
Tensor sqrt_(const Tensor& x) { return unary_("sqrt_", functors::Sqrt{}, x); }
Tensor rsqrt_(const Tensor& x) { return unary_("rsqrt_", functors::Rsqrt{}, x); }
Tensor relu_(const Tensor& x) { return unary_("relu_", functors::Relu{}, x); }
Tensor leaky_relu_(const Tensor& x, double negative_slope) {
  return unary_("leaky_relu_", functors::LeakyRelu{negative_slope}, x);
}
Tensor elu_(const Tensor& x, double alpha) { return unary_("elu_", functors::Elu{alpha}, x); }
Tensor sigmoid_(const Tensor& x) { return unary_("sigmoid_", functors::Sigmoid{}, x); }
Tensor tanh_(const Tensor& x) { return unary_("tanh_", functors::Tanh{}, x); }
Tensor silu_(const Tensor& x) { return unary_("silu_", functors::Silu{}, x); }
Tensor hardswish_(const Tensor& x) { return unary_("hardswish_", functors::Hardswish{}, x); }
Tensor hardsigmoid_(const Tensor& x) { return unary_("hardsigmoid_", functors::Hardsigmoid{}, x); }
Tensor hardtanh_(const Tensor& x, double min_val, double max_val) {
  return unary_("hardtanh_", functors::hardtanh(min_val, max_val), x);
}
Tensor relu6_(const Tensor& x) { return unary_("relu6_", functors::hardtanh(0, 6), x); }
Tensor threshold_(const Tensor& x, double threshold, double value) {
  return unary_("threshold_", functors::Threshold{threshold, value}, x);
}
Tensor selu_(const Tensor& x) { return unary_("selu_", functors::selu, x); }
Tensor celu_(const Tensor& x, double alpha) { return unary_("celu_", functors::celu(alpha), x); }
Tensor mish_(const Tensor& x) { return unary_("mish_", functors::Mish{}, x); }

Tensor fill_(const Tensor& x, Number value) {
  autograd::check_in_place("fill_", {x});
  Array target = x.value();
  target.fill(value);
  // The result does not depend on the previous values, so their gradient is zero. An undefined gradient means zero.
  autograd::record_in_place("fill_", {x}, [](const Array&, Needs) -> Gradients { return {Array()}; });
  return x;
}
Tensor zero_(const Tensor& x) { return fill_(x, 0); }

Tensor copy_(const Tensor& x, const Tensor& source) {
  autograd::check_in_place("copy_", {x, source});
  Array target = x.value();
  target.copy_from(source.value());
  autograd::record_in_place(
      "copy_", {x, source},
      [shape = source.shape(), dtype = source.dtype(), device = source.device()](const Array& grad, Needs needs) {
        Gradients gradients(2);
        if (needs[1]) gradients[1] = ops::sum_to(grad, shape).to(dtype).to(device);
        return gradients;
      });
  return x;
}

}  // namespace tandem

#include <tandem/autograd/autocast.h>
#include <tandem/autograd/elementwise_gradients.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/with_power.h>
#include <tandem/core/base/scope.h>

#include <limits>

namespace tandem {

using namespace autograd;

namespace {

template <class F>
Tensor unary(const char* name, const F& op, const Tensor& x) {
  const Scope scope(name);
  Array y = ops::map(op, x.value());
  if (!is_recorded(x)) return y;
  Saved saved;
  if constexpr (F::saves == Saves::input) saved = Saved(name, x.value());
  if constexpr (F::saves == Saves::output) saved = Saved(name, y);
  return record(name, {x}, y, unary_backward(op, saved));
}

template <class F>
Tensor binary(const char* name, const F& op, const Tensor& a, const Tensor& b) {
  const Scope scope(name);
  Array y = ops::zip(op, a.value(), b.value());
  const bool needs_a = is_recorded(a), needs_b = is_recorded(b);
  if (!needs_a && !needs_b) return y;
  return record(
      name, {a, b}, std::move(y),
      binary_backward(op, SavedOperands<F>(name, a.value(), needs_a, b.value(), needs_b), a.value(), b.value()));
}

// Casts x to the dtype of arithmetic between x and `number`.
Tensor fit(const Tensor& x, Number number) { return cast(x, ops::result_dtype(x.value(), number)); }
// Returns `number` as a Tensor of shape (), in the dtype of arithmetic between x and `number`.
Tensor operand_for(const Tensor& x, Number number) {
  return Tensor(ops::scalar(number.value, ops::result_dtype(x.value(), number), x.device()));
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    case DType::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

// Throws an Error if integers would be divided by 0. The check reads b. On a GPU nothing is checked, because the host
// would have to wait for b.
void check_divisor(const char* operation, const Tensor& a, const Tensor& b) {
  if (is_floating(promote(a.dtype(), b.dtype())) || !b.device().is_cpu()) return;
  using reductions::CountNonzero;
  const Array all = ops::reduce(CountNonzero{CountNonzero::Asked::all}, b.value());
  TANDEM_CHECK(all.item() != 0, operation, ": integers can't be divided by 0");
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, double alpha) { return binary("add", functors::Add{alpha}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b, double alpha) {
  if (alpha != 1) return binary("sub", functors::Add{-alpha}, a, b);
  return binary("sub", functors::Sub{}, a, b);
}
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", functors::Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary("div", functors::Div{}, a, b); }
Tensor add(const Tensor& x, Number number) { return unary("add", functors::Affine{1, number.value}, fit(x, number)); }
Tensor sub(const Tensor& x, Number number) { return unary("sub", functors::Affine{1, -number.value}, fit(x, number)); }
Tensor sub(Number number, const Tensor& x) { return unary("sub", functors::Affine{-1, number.value}, fit(x, number)); }
Tensor mul(const Tensor& x, Number number) { return unary("mul", functors::Affine{number.value}, fit(x, number)); }
Tensor div(const Tensor& x, Number number) { return unary("div", functors::DivideBy{number.value}, x); }
Tensor div(Number number, const Tensor& x) { return unary("div", functors::Reciprocal{number.value}, x); }
Array floor_divide(const Tensor& a, const Tensor& b) {
  check_divisor("floor_divide", a, b);
  return ops::zip(functors::FloorDivide{}, a.value(), b.value());
}
Array floor_divide(const Tensor& x, Number number) { return floor_divide(x, operand_for(x, number)); }
Tensor remainder(const Tensor& a, const Tensor& b) {
  check_divisor("remainder", a, b);
  return binary("remainder", functors::Remainder{}, a, b);
}
Tensor remainder(const Tensor& x, Number number) { return remainder(x, operand_for(x, number)); }
Tensor fmod(const Tensor& a, const Tensor& b) {
  check_divisor("fmod", a, b);
  return binary("fmod", functors::Fmod{}, a, b);
}
Tensor fmod(const Tensor& x, Number number) { return fmod(x, operand_for(x, number)); }
Tensor affine(const Tensor& x, double scale, double shift) {
  return unary("affine", functors::Affine{scale, shift}, x);
}
Tensor neg(const Tensor& x) { return unary("neg", functors::Affine{-1}, x); }

Tensor pow(const Tensor& x, Number exponent) {
  const Tensor base = fit(autocast_f32(x), exponent);
  return autograd::with_power(exponent.value, is_floating(base.dtype()),
                              [&](const auto& power) { return unary("pow", power, base); });
}
Tensor pow(const Tensor& base, const Tensor& exponent) {
  return binary("pow", functors::Pow{}, autocast_f32(base), autocast_f32(exponent));
}
Tensor pow(Number base, const Tensor& exponent) {
  const Tensor x = fit(autocast_f32(exponent), base);
  if (is_floating(x.dtype())) return unary("pow", functors::Exponential{base.value}, x);
  return binary("pow", functors::Pow{}, Tensor(ops::scalar(base.value, x.dtype(), x.device())), x);
}
Tensor square(const Tensor& x) { return unary("square", functors::Square{}, x); }
Tensor reciprocal(const Tensor& x) { return unary("reciprocal", functors::Reciprocal{}, autocast_f32(x)); }

Tensor maximum(const Tensor& a, const Tensor& b) { return binary("maximum", functors::Maximum{}, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary("minimum", functors::Minimum{}, a, b); }
Tensor clamp(const Tensor& x, std::optional<Number> min, std::optional<Number> max) {
  TANDEM_CHECK(min || max, "clamp: at least one of min and max must be given");
  Tensor fitting = x;
  functors::Clamp limits;
  if (min) limits.low = min->value, fitting = fit(fitting, *min);
  if (max) limits.high = max->value, fitting = fit(fitting, *max);
  return unary("clamp", limits, fitting);
}
Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!is_floating(x.dtype())) return Tensor(x.value().clone());
  const double most = largest(x.dtype());
  return unary("nan_to_num", functors::NanToNum{nan, posinf.value_or(most), neginf.value_or(-most)}, x);
}
Tensor abs(const Tensor& x) { return unary("abs", functors::Abs{}, x); }
Tensor sign(const Tensor& x) { return unary("sign", functors::Sign{}, x); }
Tensor floor(const Tensor& x) { return unary("floor", functors::Floor{}, x); }
Tensor ceil(const Tensor& x) { return unary("ceil", functors::Ceil{}, x); }
Tensor trunc(const Tensor& x) { return unary("trunc", functors::Trunc{}, x); }
Tensor round(const Tensor& x) { return unary("round", functors::Round{}, x); }

Tensor exp(const Tensor& x) { return unary("exp", functors::Exp{}, autocast_f32(x)); }
Tensor exp2(const Tensor& x) { return unary("exp2", functors::Exp2{}, x); }
Tensor expm1(const Tensor& x) { return unary("expm1", functors::Expm1{}, autocast_f32(x)); }
Tensor log(const Tensor& x) { return unary("log", functors::Log{}, autocast_f32(x)); }
Tensor log2(const Tensor& x) { return unary("log2", functors::Log2{}, autocast_f32(x)); }
Tensor log10(const Tensor& x) { return unary("log10", functors::Log10{}, autocast_f32(x)); }
Tensor log1p(const Tensor& x) { return unary("log1p", functors::Log1p{}, autocast_f32(x)); }
Tensor sqrt(const Tensor& x) { return unary("sqrt", functors::Sqrt{}, x); }
Tensor rsqrt(const Tensor& x) { return unary("rsqrt", functors::Rsqrt{}, autocast_f32(x)); }
Tensor sin(const Tensor& x) { return unary("sin", functors::Sin{}, x); }
Tensor cos(const Tensor& x) { return unary("cos", functors::Cos{}, x); }
Tensor tan(const Tensor& x) { return unary("tan", functors::Tan{}, autocast_f32(x)); }
Tensor asin(const Tensor& x) { return unary("asin", functors::Asin{}, autocast_f32(x)); }
Tensor acos(const Tensor& x) { return unary("acos", functors::Acos{}, autocast_f32(x)); }
Tensor atan(const Tensor& x) { return unary("atan", functors::Atan{}, x); }
Tensor atan2(const Tensor& a, const Tensor& b) { return binary("atan2", functors::Atan2{}, a, b); }
Tensor sinh(const Tensor& x) { return unary("sinh", functors::Sinh{}, autocast_f32(x)); }
Tensor cosh(const Tensor& x) { return unary("cosh", functors::Cosh{}, autocast_f32(x)); }
Tensor erf(const Tensor& x) { return unary("erf", functors::Erf{}, x); }

Tensor relu(const Tensor& x) { return unary("relu", functors::Relu{}, x); }
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return unary("leaky_relu", functors::LeakyRelu{negative_slope}, x);
}
Tensor elu(const Tensor& x, double alpha) { return unary("elu", functors::Elu{alpha}, x); }
Tensor sigmoid(const Tensor& x) { return unary("sigmoid", functors::Sigmoid{}, x); }
Tensor tanh(const Tensor& x) { return unary("tanh", functors::Tanh{}, x); }
Tensor gelu(const Tensor& x, Approximate approximate) {
  if (approximate == Approximate::tanh) return unary("gelu", functors::GeluTanh{}, x);
  return unary("gelu", functors::Gelu{}, x);
}
Tensor silu(const Tensor& x) { return unary("silu", functors::Silu{}, x); }
Tensor softplus(const Tensor& x, double beta, double threshold) {
  return unary("softplus", functors::Softplus{beta, threshold}, autocast_f32(x));
}
Tensor hardswish(const Tensor& x) { return unary("hardswish", functors::Hardswish{}, x); }
Tensor hardsigmoid(const Tensor& x) { return unary("hardsigmoid", functors::Hardsigmoid{}, x); }
Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  return unary("hardtanh", functors::hardtanh(min_val, max_val), x);
}
Tensor relu6(const Tensor& x) { return unary("relu6", functors::hardtanh(0, 6), x); }
Tensor threshold(const Tensor& x, double threshold, double value) {
  return unary("threshold", functors::Threshold{threshold, value}, x);
}
Tensor selu(const Tensor& x) { return unary("selu", functors::selu, x); }
Tensor celu(const Tensor& x, double alpha) { return unary("celu", functors::celu(alpha), x); }
Tensor mish(const Tensor& x) { return unary("mish", functors::Mish{}, x); }
Tensor softsign(const Tensor& x) { return unary("softsign", functors::Softsign{}, x); }
Tensor logsigmoid(const Tensor& x) { return unary("logsigmoid", functors::LogSigmoid{}, x); }
Tensor glu(const Tensor& x, std::int64_t dim) {
  TANDEM_CHECK(is_floating(x.dtype()), "glu: needs a floating dtype, got ", x.dtype());
  const std::int64_t size = x.dim(dim);
  TANDEM_CHECK(size % 2 == 0, "glu: dimension ", dim, " of ", x.shape(), " has an odd size");
  return binary("glu", functors::Glu{}, narrow(x, dim, 0, size / 2), narrow(x, dim, size / 2, size / 2));
}
Tensor prelu(const Tensor& input, const Tensor& of_negative) {
  const Tensor x = autocast_low(input), weight = autocast_low(of_negative);
  const int ndim = x.shape().ndim();
  const std::int64_t channels = ndim < 2 ? 1 : x.dim(1);
  TANDEM_CHECK(is_floating(x.dtype()) && weight.dtype() == x.dtype(), "prelu: input ", x.dtype(), " and weight ",
               weight.dtype(), " must have the same floating dtype");
  TANDEM_CHECK(weight.shape().ndim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
               "prelu: weight must be (), (1) or (", channels, "), one per channel of input ", x.shape(), ", got ",
               weight.shape());
  Shape along;
  for (int i = 0; i < ndim; ++i) along.push_back(i == 1 ? weight.numel() : 1);
  return binary("prelu", functors::Prelu{}, x, reshape(weight, along));
}

Tensor where(const Array& condition, const Tensor& a, const Tensor& b) {
  const Scope scope("where");
  Array y = ops::where(condition, a.value(), b.value());
  if (!is_recorded(a) && !is_recorded(b)) return y;
  return record("where", {a, b}, std::move(y),
                [saved = Saved("where", condition), shape_a = a.shape(), shape_b = b.shape(), dtype_a = a.dtype(),
                 dtype_b = b.dtype()](const Array& grad, Needs needs) -> Gradients {
                  const Array zero = ops::scalar(0, grad.dtype(), grad.device());
                  Gradients gradients(2);
                  if (needs[0]) gradients[0] = ops::sum_to(ops::where(saved, grad, zero), shape_a).to(dtype_a);
                  if (needs[1]) gradients[1] = ops::sum_to(ops::where(saved, zero, grad), shape_b).to(dtype_b);
                  return gradients;
                });
}
Tensor where(const Array& condition, const Tensor& a, Number b) {
  const Tensor fitting = fit(a, b);
  return where(condition, fitting, Tensor(ops::scalar(b.value, fitting.dtype(), a.device())));
}
Tensor where(const Array& condition, Number a, const Tensor& b) {
  const Tensor fitting = fit(b, a);
  return where(condition, Tensor(ops::scalar(a.value, fitting.dtype(), b.device())), fitting);
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Scope scope("cast");
  Array y = x.value().to(dtype);
  if (!is_recorded(x) || !is_floating(dtype)) return y;
  return record("cast", {x}, std::move(y),
                [from = x.dtype()](const Array& grad, Needs) -> Gradients { return {grad.to(from)}; });
}

namespace {

Array comparison(const CompareOp& op, const Tensor& a, const Tensor& b) {
  return ops::compare(op, a.value(), b.value());
}
Array comparison(const CompareOp& op, const Tensor& x, Number number) { return ops::compare(op, x.value(), number); }

}  // namespace

Array eq(const Tensor& a, const Tensor& b) { return comparison(functors::Equal{}, a, b); }
Array ne(const Tensor& a, const Tensor& b) { return comparison(functors::NotEqual{}, a, b); }
Array lt(const Tensor& a, const Tensor& b) { return comparison(functors::Less{}, a, b); }
Array le(const Tensor& a, const Tensor& b) { return comparison(functors::LessEqual{}, a, b); }
Array gt(const Tensor& a, const Tensor& b) { return comparison(functors::Greater{}, a, b); }
Array ge(const Tensor& a, const Tensor& b) { return comparison(functors::GreaterEqual{}, a, b); }
Array eq(const Tensor& x, Number number) { return comparison(functors::Equal{}, x, number); }
Array ne(const Tensor& x, Number number) { return comparison(functors::NotEqual{}, x, number); }
Array lt(const Tensor& x, Number number) { return comparison(functors::Less{}, x, number); }
Array le(const Tensor& x, Number number) { return comparison(functors::LessEqual{}, x, number); }
Array gt(const Tensor& x, Number number) { return comparison(functors::Greater{}, x, number); }
Array ge(const Tensor& x, Number number) { return comparison(functors::GreaterEqual{}, x, number); }
Array logical_and(const Tensor& a, const Tensor& b) { return comparison(functors::And{}, a, b); }
Array logical_or(const Tensor& a, const Tensor& b) { return comparison(functors::Or{}, a, b); }
Array logical_xor(const Tensor& a, const Tensor& b) { return comparison(functors::Xor{}, a, b); }
Array logical_not(const Tensor& x) { return eq(x, 0); }

namespace {

const Tensor& bools(const char* sign, const char* function, const Tensor& x) {
  TANDEM_CHECK(x.dtype() == DType::boolean, "operator", sign, " needs bools, got ", x.dtype(),
               ": compare first, as in x > 0, or call ", function, "()");
  return x;
}

}  // namespace

Array operator&(const Tensor& a, const Tensor& b) {
  return logical_and(bools("&", "logical_and", a), bools("&", "logical_and", b));
}
Array operator|(const Tensor& a, const Tensor& b) {
  return logical_or(bools("|", "logical_or", a), bools("|", "logical_or", b));
}
Array operator^(const Tensor& a, const Tensor& b) {
  return logical_xor(bools("^", "logical_xor", a), bools("^", "logical_xor", b));
}
Array operator~(const Tensor& x) { return logical_not(bools("~", "logical_not", x)); }
Array isnan(const Tensor& x) { return ne(x, x); }
Array isinf(const Tensor& x) {
  if (!is_floating(x.dtype())) return ops::full(x.shape(), 0, DType::boolean, x.device());
  return eq(ops::map(functors::Abs{}, x.value()), std::numeric_limits<double>::infinity());
}
Array isfinite(const Tensor& x) {
  if (!is_floating(x.dtype())) return ops::full(x.shape(), 1, DType::boolean, x.device());
  return lt(ops::map(functors::Abs{}, x.value()), std::numeric_limits<double>::infinity());
}

}  // namespace tandem

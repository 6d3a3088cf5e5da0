#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/in_place.h>
#include <tandem/autograd/functions/shape.h>

#include "operations/table.h"

namespace tandem::testing {

namespace {

Number number_of(const Call& c) {
  const double value = c.attributes.at("number").get<double>();
  if (c.attributes.at("is_integer")) return static_cast<std::int64_t>(value);
  return value;
}

std::optional<Number> limit(const Call& c, const char* key) {
  if (!c.has(key)) return {};
  const auto& value = c.attributes.at(key);
  return value.is_number_integer() ? Number(value.get<std::int64_t>()) : Number(value.get<double>());
}

double option(const Call& c, const char* key, double otherwise) { return c.has(key) ? c.get<double>(key) : otherwise; }

template <Tensor (*f)(const Tensor&, const Tensor&, double)>
Tensor with_alpha(Call& c) {
  return f(c.in.at(0), c.in.at(1), option(c, "alpha", 1));
}
template <Tensor (*f)(const Tensor&, Number)>
Tensor with_number(Call& c) {
  return f(c.in.at(0), number_of(c));
}
template <Tensor (*f)(Number, const Tensor&)>
Tensor number_with(Call& c) {
  return f(number_of(c), c.in.at(0));
}
template <Array (*f)(const Tensor&, const Tensor&)>
Tensor comparison(Call& c) {
  return f(c.in.at(0), c.in.at(1));
}
template <Array (*f)(const Tensor&, Number)>
Tensor comparison_with_number(Call& c) {
  return f(c.in.at(0), number_of(c));
}
template <Array (*f)(const Tensor&)>
Tensor predicate(Call& c) {
  return f(c.in.at(0));
}

// Works in place on a copy if the result has the shape and dtype of the first operand, and calls the other form
// otherwise.
template <Tensor (*in_place)(const Tensor&), Tensor (*f)(const Tensor&)>
Tensor on_copy(Call& c) {
  const Tensor& x = c.in.at(0);
  return is_floating(x.dtype()) ? in_place(clone(x)) : f(x);
}
bool first_has_result(const Call& c) {
  const Tensor &a = c.in.at(0), &b = c.in.at(1);
  return is_floating(a.dtype()) && promote(a.dtype(), b.dtype()) == a.dtype() &&
         broadcast_shape(a.shape(), b.shape(), "on_copy") == a.shape();
}
template <Tensor (*in_place)(const Tensor&, const Tensor&), Tensor (*f)(const Tensor&, const Tensor&)>
Tensor pair_on_copy(Call& c) {
  return first_has_result(c) ? in_place(clone(c.in[0]), c.in[1]) : f(c.in[0], c.in[1]);
}
template <Tensor (*in_place)(const Tensor&, const Tensor&, double), Tensor (*f)(const Tensor&, const Tensor&, double)>
Tensor pair_with_alpha_on_copy(Call& c) {
  const double alpha = option(c, "alpha", 1);
  return first_has_result(c) ? in_place(clone(c.in[0]), c.in[1], alpha) : f(c.in[0], c.in[1], alpha);
}

DType dtype_of(const Call& c) {
  const std::string name = c.attributes.at("dtype");
  return name == "f64" ? DType::f64 : name == "i32" ? DType::i32 : DType::f32;
}

}  // namespace

std::vector<Row> elementwise_rows() {
  return {
      {"relu", unary<relu>},
      {"neg", unary<neg>},
      {"exp", unary<exp>},
      {"log", unary<log>},
      {"log1p", unary<log1p>},
      {"sqrt", unary<sqrt>},
      {"rsqrt", unary<rsqrt>},
      {"sigmoid", unary<sigmoid>},
      {"tanh", unary<tanh>},
      {"abs", unary<abs>},
      {"sign", unary<sign>},
      {"floor", unary<floor>},
      {"ceil", unary<ceil>},
      {"trunc", unary<trunc>},
      {"round", unary<round>},
      {"square", unary<square>},
      {"reciprocal", unary<reciprocal>},
      {"sin", unary<sin>},
      {"cos", unary<cos>},
      {"erf", unary<erf>},
      {"silu", unary<silu>},
      {"hardswish", unary<hardswish>},
      {"leaky_relu", [](Call& c) { return leaky_relu(c.in.at(0), option(c, "negative_slope", 0.01)); }},
      {"elu", [](Call& c) { return elu(c.in.at(0), option(c, "alpha", 1)); }},
      {"gelu", [](Call& c) { return gelu(c.in.at(0), c.has("approximate") ? Approximate::tanh : Approximate::none); }},
      {"softplus", [](Call& c) { return softplus(c.in.at(0), option(c, "beta", 1), option(c, "threshold", 20)); }},
      {"exp2", unary<exp2>},
      {"expm1", unary<expm1>},
      {"log2", unary<log2>},
      {"log10", unary<log10>},
      {"tan", unary<tan>},
      {"asin", unary<asin>},
      {"acos", unary<acos>},
      {"atan", unary<atan>},
      {"sinh", unary<sinh>},
      {"cosh", unary<cosh>},
      {"atan2", binary<atan2>},
      {"remainder", binary<remainder>, "", 64 * machine_epsilon(DType::f32), 3, 16},
      {"fmod", binary<fmod>, "", 64 * machine_epsilon(DType::f32), 3, 16},
      {"floor_divide", comparison<floor_divide>},
      {"remainder_number", with_number<remainder>},
      {"fmod_number", with_number<fmod>},
      {"floor_divide_number", comparison_with_number<floor_divide>},
      {"nan_to_num",
       [](Call& c) {
         const auto number = [&](const char* key) {
           return c.has(key) ? std::optional(c.get<double>(key)) : std::nullopt;
         };
         return nan_to_num(c.in.at(0), option(c, "nan", 0), number("posinf"), number("neginf"));
       }},
      {"hardsigmoid", unary<hardsigmoid>},
      {"hardtanh", [](Call& c) { return hardtanh(c.in[0], option(c, "min_val", -1), option(c, "max_val", 1)); }},
      {"relu6", unary<relu6>},
      {"threshold", [](Call& c) { return threshold(c.in[0], c.get<double>("threshold"), c.get<double>("value")); }},
      {"selu", unary<selu>},
      {"celu", [](Call& c) { return celu(c.in[0], option(c, "alpha", 1)); }},
      {"mish", unary<mish>},
      {"softsign", unary<softsign>},
      {"logsigmoid", unary<logsigmoid>},
      {"glu", [](Call& c) { return glu(c.in[0], c.get<std::int64_t>("dim")); }},
      // The gradient of the weight is a sum of products that are rounded to 16 bits.
      {"prelu", binary<prelu>, "", 64 * machine_epsilon(DType::f32), 3, 16},
      {"clamp", [](Call& c) { return clamp(c.in.at(0), limit(c, "min"), limit(c, "max")); }},
      {"add", with_alpha<add>},
      {"sub", with_alpha<sub>},
      // The gradient of a repeated operand is a sum of products that are rounded to 16 bits, and may cancel out.
      {"mul", binary<mul>, "", 64 * machine_epsilon(DType::f32), 3, 16},
      {"div", binary<div>},
      {"pow", binary<pow>},
      {"maximum", binary<maximum>},
      {"minimum", binary<minimum>},
      {"add_number", with_number<add>},
      {"sub_number", with_number<sub>},
      {"mul_number", with_number<mul>},
      {"div_number", with_number<div>},
      {"number_sub", number_with<sub>},
      {"number_div", number_with<div>},
      {"pow_number", with_number<pow>},
      {"number_pow", number_with<pow>},
      {"eq", comparison<eq>},
      {"ne", comparison<ne>},
      {"lt", comparison<lt>},
      {"le", comparison<le>},
      {"gt", comparison<gt>},
      {"ge", comparison<ge>},
      {"eq_number", comparison_with_number<eq>},
      {"ne_number", comparison_with_number<ne>},
      {"lt_number", comparison_with_number<lt>},
      {"le_number", comparison_with_number<le>},
      {"gt_number", comparison_with_number<gt>},
      {"ge_number", comparison_with_number<ge>},
      {"logical_and", comparison<logical_and>},
      {"logical_or", comparison<logical_or>},
      {"logical_xor", comparison<logical_xor>},
      {"logical_not", predicate<logical_not>},
      {"isnan", predicate<isnan>},
      {"isinf", predicate<isinf>},
      {"isfinite", predicate<isfinite>},
      {"where", [](Call& c) { return where(c.in.at(0).value(), c.in.at(1), c.in.at(2)); }},
      {"where_number", [](Call& c) { return where(c.in.at(0).value(), c.in.at(1), number_of(c)); }},
      {"number_where", [](Call& c) { return where(c.in.at(0).value(), number_of(c), c.in.at(1)); }},
      {.op = "neg", .function = on_copy<neg_, neg>, .variant = "in_place", .also = {"neg_"}},
      {.op = "abs", .function = on_copy<abs_, abs>, .variant = "in_place", .also = {"abs_"}},
      {.op = "square", .function = on_copy<square_, square>, .variant = "in_place", .also = {"square_"}},
      {.op = "reciprocal",
       .function = on_copy<reciprocal_, reciprocal>,
       .variant = "in_place",
       .also = {"reciprocal_"}},
      {.op = "floor", .function = on_copy<floor_, floor>, .variant = "in_place", .also = {"floor_"}},
      {.op = "ceil", .function = on_copy<ceil_, ceil>, .variant = "in_place", .also = {"ceil_"}},
      {.op = "trunc", .function = on_copy<trunc_, trunc>, .variant = "in_place", .also = {"trunc_"}},
      {.op = "round", .function = on_copy<round_, round>, .variant = "in_place", .also = {"round_"}},
      {.op = "exp", .function = on_copy<exp_, exp>, .variant = "in_place", .also = {"exp_"}},
      {.op = "log", .function = on_copy<log_, log>, .variant = "in_place", .also = {"log_"}},
      {.op = "sqrt", .function = on_copy<sqrt_, sqrt>, .variant = "in_place", .also = {"sqrt_"}},
      {.op = "rsqrt", .function = on_copy<rsqrt_, rsqrt>, .variant = "in_place", .also = {"rsqrt_"}},
      {.op = "relu", .function = on_copy<relu_, relu>, .variant = "in_place", .also = {"relu_"}},
      {.op = "sigmoid", .function = on_copy<sigmoid_, sigmoid>, .variant = "in_place", .also = {"sigmoid_"}},
      {.op = "tanh", .function = on_copy<tanh_, tanh>, .variant = "in_place", .also = {"tanh_"}},
      {.op = "silu", .function = on_copy<silu_, silu>, .variant = "in_place", .also = {"silu_"}},
      {.op = "hardswish", .function = on_copy<hardswish_, hardswish>, .variant = "in_place", .also = {"hardswish_"}},
      {.op = "hardsigmoid",
       .function = on_copy<hardsigmoid_, hardsigmoid>,
       .variant = "in_place",
       .also = {"hardsigmoid_"}},
      {.op = "relu6", .function = on_copy<relu6_, relu6>, .variant = "in_place", .also = {"relu6_"}},
      {.op = "selu", .function = on_copy<selu_, selu>, .variant = "in_place", .also = {"selu_"}},
      {.op = "mish", .function = on_copy<mish_, mish>, .variant = "in_place", .also = {"mish_"}},
      {.op = "hardtanh",
       .function = [](Call& c) { return hardtanh_(clone(c.in[0]), option(c, "min_val", -1), option(c, "max_val", 1)); },
       .variant = "in_place",
       .also = {"hardtanh_"}},
      {.op = "threshold",
       .function =
           [](Call& c) { return threshold_(clone(c.in[0]), c.get<double>("threshold"), c.get<double>("value")); },
       .variant = "in_place",
       .also = {"threshold_"}},
      {.op = "celu",
       .function = [](Call& c) { return celu_(clone(c.in[0]), option(c, "alpha", 1)); },
       .variant = "in_place",
       .also = {"celu_"}},
      {.op = "mul", .function = pair_on_copy<mul_, mul>, .variant = "in_place", .low_tolerance = 16, .also = {"mul_"}},
      {.op = "div", .function = pair_on_copy<div_, div>, .variant = "in_place", .low_tolerance = 16, .also = {"div_"}},
      {.op = "add", .function = pair_with_alpha_on_copy<add_, add>, .variant = "in_place", .also = {"add_"}},
      {.op = "sub", .function = pair_with_alpha_on_copy<sub_, sub>, .variant = "in_place", .also = {"sub_"}},
      {.op = "leaky_relu",
       .function = [](Call& c) { return leaky_relu_(clone(c.in[0]), option(c, "negative_slope", 0.01)); },
       .variant = "in_place",
       .also = {"leaky_relu_"}},
      {.op = "elu",
       .function = [](Call& c) { return elu_(clone(c.in[0]), option(c, "alpha", 1)); },
       .variant = "in_place",
       .also = {"elu_"}},
      {.op = "clamp",
       .function =
           [](Call& c) {
             const Tensor& x = c.in[0];
             return is_floating(x.dtype()) ? clamp_(clone(x), limit(c, "min"), limit(c, "max"))
                                           : clamp(x, limit(c, "min"), limit(c, "max"));
           },
       .variant = "in_place",
       .also = {"clamp_"}},
      {.op = "pow_number",
       .function =
           [](Call& c) {
             const Tensor& x = c.in[0];
             return is_floating(x.dtype()) ? pow_(clone(x), number_of(c)) : pow(x, number_of(c));
           },
       .variant = "in_place",
       .also = {"pow_"}},
      {"affine", [](Call& c) { return affine(c.in[0], 2.5, -1.25); }},
      {"fill_", [](Call& c) { return fill_(clone(c.in[0].detach()), 2.5); }},
      {"zero_", [](Call& c) { return zero_(clone(c.in[0].detach())); }},
      {.op = "copy_", .function = [](Call& c) { return copy_(clone(c.in[0].detach()), c.in[1]); }, .low_inputs = 0},
      {.op = "cast", .function = [](Call& c) { return cast(c.in[0], dtype_of(c)); }, .low_inputs = 0},
  };
}

}  // namespace tandem::testing

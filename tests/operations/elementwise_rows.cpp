#include <tandem/autograd/ops_elementwise.h>

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

double option(const Call& c, const char* key, double otherwise) {
  return c.has(key) ? c.get<double>(key) : otherwise;
}

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
      {"gelu",
       [](Call& c) {
         return gelu(c.in.at(0), c.has("approximate") ? Approximate::tanh : Approximate::none);
       }},
      {"softplus",
       [](Call& c) { return softplus(c.in.at(0), option(c, "beta", 1), option(c, "threshold", 20)); }},
      {"clamp", [](Call& c) { return clamp(c.in.at(0), limit(c, "min"), limit(c, "max")); }},
      {"add", with_alpha<add>},
      {"sub", with_alpha<sub>},
      // The gradient of a repeated operand sums products that were rounded to 16 bits, and they may cancel.
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
  };
}

}  // namespace tandem::testing

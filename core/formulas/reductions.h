// The reductions: the state that each of them keeps while it goes over numbers, on every device, and its derivative.
//
// A state takes one number with add(), takes in another state with merge(), and gives its result as a double (i64 for
// integers) with result(count). The output's dtype is made from that. An operation is a struct that names its state,
// holds its parameters, and has these members:
//   rules(dtype)             what ops::reduce checks and allocates, for numbers of that dtype;
//   result(state, count)     the result, from the state of all `count` numbers;
//   derivative(x, y, grad)   the gradient of one element. For some operations y and grad are not simply the result and
//                            its gradient: the callers of ops::reduce_grad say what they are.
//
// To add a reduction: write a state and a struct, name the struct in Reduction, and give it a block in
// core/cpu/reduce_blocks.h, a line in autograd/functions/reduce.h and a row in the table of tests.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/core/formulas/functors/math.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

namespace tandem {

// The type in which a state sums numbers of T: double, or i64 for integers. It is so wide that the result is as exact
// as its dtype can show, whatever the order of the numbers.
template <class T>
using wide_t = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

template <class C>
TANDEM_HOST_DEVICE bool is_nan(C x) {
  return x != x;
}

// The magnitude |x|. An unsigned or boolean x is its own magnitude.
template <class C>
TANDEM_HOST_DEVICE C magnitude(C x) {
  if constexpr (std::is_signed_v<C>) return x < C(0) ? -x : x;
  else return x;
}

template <class T>
struct Sum {
  using Number = wide_t<T>;
  Number total = 0;
  TANDEM_HOST_DEVICE void add(T value, std::int64_t) {
    total = wrapping_sum(total, static_cast<Number>(static_cast<compute_t<T>>(value)));
  }
  TANDEM_HOST_DEVICE void merge(const Sum& other) { total = wrapping_sum(total, other.total); }
};

template <class T>
struct Product {
  wide_t<T> total = 1, of_others = 1;  // the product of all numbers, and the product of those that are not 0
  std::int64_t zeros = 0;
  TANDEM_HOST_DEVICE void add(T value, std::int64_t) {
    const auto v = static_cast<wide_t<T>>(static_cast<compute_t<T>>(value));
    total = wrapping_product(total, v);
    if (v == 0) ++zeros;
    else of_others = wrapping_product(of_others, v);
  }
  TANDEM_HOST_DEVICE void merge(const Product& other) {
    total = wrapping_product(total, other.total);
    of_others = wrapping_product(of_others, other.of_others);
    zeros += other.zeros;
  }
};

// The largest (or smallest) number and its position, the first one of equals. A NaN counts both as the largest and as
// the smallest.
template <class T, bool largest>
struct Extreme {
  compute_t<T> value{};
  std::int64_t index = -1;  // -1: no number was seen yet
  TANDEM_HOST_DEVICE void add(T number, std::int64_t i) { merge({static_cast<compute_t<T>>(number), i}); }
  TANDEM_HOST_DEVICE void merge(const Extreme& other) {
    if (other.index < 0) return;
    const bool nan = is_nan(value), other_nan = is_nan(other.value);
    const bool equal = nan ? other_nan : other.value == value;
    const bool beyond = largest ? other.value > value : other.value < value;
    const bool better = !nan && (other_nan || beyond);
    if (index < 0 || better || (equal && other.index < index)) *this = other;
  }
};

template <class T, bool largest>
struct ExtremeMagnitude : Extreme<T, largest> {
  TANDEM_HOST_DEVICE void add(T number, std::int64_t i) {
    this->merge({magnitude(static_cast<compute_t<T>>(number)), i});
  }
};

// Welford's mean and sum of squared deviations from it. merge() combines two Spreads by Chan's formula.
template <class T>
struct Spread {
  double count = 0, mean = 0, m2 = 0;
  TANDEM_HOST_DEVICE void add(T value, std::int64_t) {
    const double v = static_cast<compute_t<T>>(value), delta = v - mean;
    count += 1;
    mean += delta / count;
    m2 += delta * (v - mean);
  }
  TANDEM_HOST_DEVICE void merge(const Spread& other) {
    if (other.count == 0) return;
    const double all = count + other.count, delta = other.mean - mean, share = other.count / all;
    mean += delta * share;
    m2 += other.m2 + delta * delta * count * share;
    count = all;
  }
};

// log(sum(exp(x))), kept as the maximum and the sum of exp(x - maximum). A sum of 0 means that all numbers so far were
// -inf.
template <class T>
struct ExpSum {
  compute_t<T> highest = -std::numeric_limits<compute_t<T>>::infinity();
  double sum = 0;
  TANDEM_HOST_DEVICE void add(T value, std::int64_t) {
    const auto v = static_cast<compute_t<T>>(value);
    merge({v, v == -std::numeric_limits<compute_t<T>>::infinity() ? 0.0 : 1.0});
  }
  TANDEM_HOST_DEVICE void merge(const ExpSum& other) {
    if (other.sum == 0) return;
    if (sum == 0) {
      *this = other;
    } else if (other.highest > highest || is_nan(other.highest)) {
      sum = other.sum + sum * static_cast<double>(std::exp(highest - other.highest));
      highest = other.highest;
    } else if (other.highest == highest) {  // also true where both are infinite
      sum += other.sum;
    } else {
      sum += other.sum * static_cast<double>(std::exp(other.highest - highest));
    }
  }
  TANDEM_HOST_DEVICE double result() const { return static_cast<double>(highest) + (sum == 0 ? 0 : std::log(sum)); }
};

namespace reductions {

struct Rules {
  const char* name;                   // for error messages
  std::optional<DType> result_dtype;  // none if the operation does not take numbers of this dtype
  bool needs_elements = false;        // whether it is an error to reduce nothing
};

// Result dtypes of operations that take floating numbers only, and of those that sum integers and bools in i64.
constexpr std::optional<DType> floating_only(DType x) { return is_floating(x) ? std::optional(x) : std::nullopt; }
constexpr DType widened(DType x) { return is_floating(x) ? x : DType::i64; }

// True if an operation has kernels for integers and bools.
template <class Op>
constexpr bool takes_integers = Op().rules(DType::i64).result_dtype.has_value();

// Adds a number to a state. An operation whose parameters decide how it is added has an overload.
template <class Op, class State, class T>
TANDEM_HOST_DEVICE void add(const Op&, State& state, T value, std::int64_t index) {
  state.add(value, index);
}

struct Sum {
  bool mean = false;
  constexpr Rules rules(DType x) const { return mean ? Rules{"mean", floating_only(x)} : Rules{"sum", widened(x)}; }
  template <class T>
  using State = tandem::Sum<T>;
  template <class T>
  TANDEM_HOST_DEVICE wide_t<T> result(const State<T>& s, std::int64_t count) const {
    if constexpr (std::is_integral_v<T>) return s.total;
    else return mean ? s.total / static_cast<double>(count) : s.total;
  }
};

// The product of all numbers. With `besides_the_zero`, which its gradient uses: the product of the other numbers when
// exactly one number is 0, and 0 otherwise.
struct Prod {
  bool besides_the_zero = false;
  constexpr Rules rules(DType x) const { return {"prod", widened(x)}; }
  template <class T>
  using State = Product<T>;
  template <class T>
  TANDEM_HOST_DEVICE wide_t<T> result(const State<T>& s, std::int64_t) const {
    if (besides_the_zero) return s.zeros == 1 ? s.of_others : wide_t<T>(0);
    return s.total;
  }
  // Here y is the gradient of an element that is 0, and grad is the gradient of the result times the product.
  template <class C>
  TANDEM_HOST_DEVICE C derivative(C x, C y, C grad) const {
    return x == C(0) ? y : grad / x;
  }
};

template <bool largest, bool of_magnitudes>
struct Extreme {
  constexpr Rules rules(DType x) const {
    return {of_magnitudes ? "norm" : largest ? "max" : "min", of_magnitudes ? floating_only(x) : x, true};
  }
  template <class T>
  using State = std::conditional_t<of_magnitudes, ExtremeMagnitude<T, largest>, tandem::Extreme<T, largest>>;
  template <class T>
  TANDEM_HOST_DEVICE wide_t<T> result(const State<T>& s, std::int64_t) const {
    return static_cast<wide_t<T>>(s.value);
  }
  // Here grad is already divided by the number of elements that equal the extreme.
  template <class C>
  TANDEM_HOST_DEVICE C derivative(C x, C y, C grad) const {
    if constexpr (of_magnitudes) return magnitude(x) == y ? (x < C(0) ? -grad : x > C(0) ? grad : C(0)) : C(0);
    else return x == y || (is_nan(x) && is_nan(y)) ? grad : C(0);
  }
};
using Max = Extreme<true, false>;
using Min = Extreme<false, false>;
using MaxMagnitude = Extreme<true, true>;
using MinMagnitude = Extreme<false, true>;

struct Var {
  double correction = 1;
  bool root = false;  // the result is the standard deviation, not the variance
  constexpr Rules rules(DType x) const { return {root ? "stddev" : "var", floating_only(x)}; }
  template <class T>
  using State = Spread<T>;
  template <class T>
  TANDEM_HOST_DEVICE double result(const State<T>& s, std::int64_t count) const {
    const double freedom = static_cast<double>(count) - correction;
    const double var = s.m2 / (freedom > 0 ? freedom : 0);
    return root ? std::sqrt(var) : var;
  }
  // Here y is the mean, and grad the gradient of the variance times 2 / (count - correction).
  template <class C>
  TANDEM_HOST_DEVICE C derivative(C x, C mean, C grad) const {
    return grad * (x - mean);
  }
};

// (sum of |x|^p)^(1/p), for a finite p that is not 0.
struct Norm {
  double p = 2;
  constexpr Rules rules(DType x) const { return {"norm", floating_only(x), p < 0}; }
  template <class T>
  struct State : tandem::Sum<T> {};
  template <class C>
  TANDEM_HOST_DEVICE C power(C x) const {
    if (p == 2) return x * x;
    if (p == 1) return magnitude(x);
    return std::pow(magnitude(x), static_cast<C>(p));
  }
  template <class T>
  TANDEM_HOST_DEVICE double result(const State<T>& s, std::int64_t) const {
    return p == 2 ? std::sqrt(s.total) : p == 1 ? s.total : std::pow(s.total, 1 / p);
  }
  template <class C>
  TANDEM_HOST_DEVICE C derivative(C x, C y, C grad) const {
    if (p == 1) return x < C(0) ? -grad : x > C(0) ? grad : x * C(0);
    if (y == C(0)) return C(0);
    if (p == 2) return grad * x / y;
    if (x == C(0)) return C(0);
    const C power = std::pow(magnitude(x) / y, static_cast<C>(p - 1));
    return x < C(0) ? -grad * power : grad * power;
  }
};
template <class T>
TANDEM_HOST_DEVICE void add(const Norm& op, Norm::State<T>& state, T value, std::int64_t) {
  state.total += op.power(static_cast<compute_t<T>>(value));
}

struct LogSumExp {
  constexpr Rules rules(DType x) const { return {"logsumexp", floating_only(x)}; }
  template <class T>
  using State = ExpSum<T>;
  template <class T>
  TANDEM_HOST_DEVICE double result(const State<T>& s, std::int64_t) const {
    return s.result();
  }
  template <class C>
  TANDEM_HOST_DEVICE C derivative(C x, C y, C grad) const {
    return x == -std::numeric_limits<C>::infinity() ? C(0) : grad * functors::math::exp(x - y);
  }
};

// The number of elements that are not 0, or whether there is any, or whether all are.
struct CountNonzero {
  enum class Asked { number, any, all };
  Asked asked = Asked::number;
  constexpr Rules rules(DType x) const {
    if (asked == Asked::number) return {"count_nonzero", DType::i64};
    return {asked == Asked::any ? "any" : "all", x == DType::u8 ? DType::u8 : DType::boolean};
  }
  template <class T>
  struct State {
    std::int64_t total = 0;
    TANDEM_HOST_DEVICE void add(T value, std::int64_t) { total += static_cast<compute_t<T>>(value) != 0; }
    TANDEM_HOST_DEVICE void merge(const State& other) { total += other.total; }
  };
  template <class T>
  TANDEM_HOST_DEVICE std::int64_t result(const State<T>& s, std::int64_t count) const {
    return asked == Asked::number ? s.total : asked == Asked::any ? s.total > 0 : s.total == count;
  }
};

using AnyOf = std::variant<Sum, Prod, Max, Min, MaxMagnitude, MinMagnitude, Var, Norm, LogSumExp, CountNonzero>;

}  // namespace reductions

// Any of the reductions. Those without parameters have names.
struct Reduction : reductions::AnyOf {
  using reductions::AnyOf::variant;
  const reductions::AnyOf& any() const { return *this; }
  reductions::Rules rules(DType x) const {
    return std::visit([x](const auto& each) { return each.rules(x); }, any());
  }
  static const Reduction sum, mean, max, min, prod, count_nonzero;
};
inline constexpr Reduction Reduction::sum{reductions::Sum{}};
inline constexpr Reduction Reduction::mean{reductions::Sum{.mean = true}};
inline constexpr Reduction Reduction::max{reductions::Max{}};
inline constexpr Reduction Reduction::min{reductions::Min{}};
inline constexpr Reduction Reduction::prod{reductions::Prod{}};
inline constexpr Reduction Reduction::count_nonzero{reductions::CountNonzero{}};

// Calls f with the struct of the reduction if it has a derivative. Throws an Error otherwise.
template <class F>
void with_derivative(const Reduction& op, F f) {
  std::visit(
      [&](const auto& each) {
        if constexpr (requires { each.derivative(0.0, 0.0, 0.0); }) f(each);
        else detail::fail("reduction: this reduction has no gradient formula");
      },
      op.any());
}

// The memory that receives a reduction's results, in the dtype of the output, whatever the dtype of the input is.
struct ReductionOutput {
  void* data;
  DType dtype;
  template <class N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, N value) const {
    switch (dtype) {
      case DType::f32: static_cast<float*>(data)[i] = static_cast<float>(value); break;
      case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(value); break;
      case DType::bf16: static_cast<bfloat16*>(data)[i] = bfloat16(static_cast<float>(value)); break;
      case DType::f16: static_cast<float16*>(data)[i] = float16(static_cast<float>(value)); break;
      case DType::i64: static_cast<std::int64_t*>(data)[i] = static_cast<std::int64_t>(value); break;
      case DType::i32: static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value); break;
      case DType::u8: static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value); break;
      case DType::boolean: static_cast<bool*>(data)[i] = value != 0; break;
    }
  }
};

}  // namespace tandem

// New Arrays of random numbers (create.h).
#include <tandem/core/base/scope.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace tandem::ops {

namespace {

// Returns an Array of random numbers. Like PyTorch's generator, it draws f64 numbers for f64, and f32 numbers for other
// dtypes.
template <class F>
Array drawn(const Shape& shape, DType dtype, Device device, const char* operation, F fill) {
  TANDEM_CHECK(is_floating(dtype), operation, ": needs a floating dtype, got ", dtype);
  Array result = Array::empty(shape, compute_dtype(dtype));
  if (dtype == DType::f64) fill(result.data<double>(), result.numel());
  else fill(result.data<float>(), result.numel());
  return result.to(dtype).to(device);
}

// Returns a copy of `source` in the layout of `like`.
Array laid_out_as(const Array& like, const Array& source) {
  Array result = empty_like(like, source.dtype());
  result.copy_from(source);
  return result;
}

}  // namespace

Array rand(const Shape& shape, DType dtype, Device device, Generator& generator) {
  const Scope scope("rand");
  return drawn(shape, dtype, device, "rand", [&]<class T>(T* values, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) values[i] = generator.uniform(T(0), T(1));
  });
}

Array randn(const Shape& shape, DType dtype, Device device, Generator& generator) {
  const Scope scope("randn");
  return drawn(shape, dtype, device, "randn", [&](auto* values, std::int64_t n) { generator.fill_normal(values, n); });
}

Array randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Device device,
              Generator& generator) {
  const Scope scope("randint");
  TANDEM_CHECK(low < high, "randint: there is no integer in [", low, ", ", high, ")");
  TANDEM_CHECK(dtype == DType::i64 ||
                   (can_hold(dtype, static_cast<double>(low)) && can_hold(dtype, static_cast<double>(high - 1))),
               "randint: not all integers in [", low, ", ", high, ") can be represented as ", dtype);
  Array result = Array::empty(shape, DType::i64);
  std::int64_t* const values = result.data<std::int64_t>();
  std::generate_n(values, result.numel(), [&] { return generator.integer(low, high); });
  return result.to(dtype).to(device);
}

Array randperm(std::int64_t n, Device device, Generator& generator) {
  const Scope scope("randperm");
  Array::empty({n}, DType::i64);  // throws an Error before drawing if there is not enough memory
  return Array::from(generator.permutation(n), {n}).to(device);
}

Array normal(double mean, double std, const Shape& shape, DType dtype, Device device, Generator& generator) {
  const Scope scope("normal");
  TANDEM_CHECK(std >= 0, "normal: the standard deviation must not be negative, got ", std);
  return drawn(shape, dtype, device, "normal",
               [&](auto* values, std::int64_t n) { generator.fill_normal(values, n, mean, std); });
}

Array bernoulli(const Array& probabilities, Generator& generator) {
  const Scope scope("bernoulli");
  const Array p = probabilities.to(Device()).contiguous();
  const auto chances = p.dtype() == DType::f64 ? p : p.to(DType::f32);
  const auto draw = [&]<class T>(const T* chance, T* values, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      TANDEM_CHECK(chance[i] >= 0 && chance[i] <= 1, "bernoulli: a probability must be in [0, 1], got ", chance[i],
                   " at position ", i);
      values[i] = generator.uniform(T(0), T(1)) < chance[i] ? T(1) : T(0);
    }
  };
  const Array result = drawn(p.shape(), p.dtype(), {}, "bernoulli",
                             [&]<class T>(T* values, std::int64_t n) { draw(chances.data<T>(), values, n); });
  return result.to(probabilities.device());
}

namespace {

// With more equal weights, a sum in f32 would stop growing.
constexpr std::int64_t most_positions = 1 << 24;

// Draws with replacement into `positions`. Each draw is the first position at which the cumulative share of the weights
// exceeds a uniform number. T is the type in which PyTorch sums the weights.
template <class T>
void draw_with_replacement(std::span<const T> weights, std::span<std::int64_t> positions, Generator& generator) {
  std::vector<T> shares(weights.size());
  std::partial_sum(weights.begin(), weights.end(), shares.begin());
  const T sum = shares.back();
  TANDEM_CHECK(std::isfinite(sum), "multinomial: the sum of the weights is not finite: divide them by the largest one");
  for (T& share : shares) share /= sum;
  // The last share is 1, up to rounding. Positions after the last weight above 0 are never drawn.
  const auto last = std::find_if(weights.rbegin(), weights.rend(), [](T w) { return w > 0; }).base() - 1;
  const auto end = shares.begin() + (last - weights.begin());
  for (std::int64_t& position : positions)
    position = std::upper_bound(shares.begin(), end, generator.uniform(0.0, 1.0),
                                [](double drawn, T share) { return drawn < share; }) -
               shares.begin();
}

// Draws without replacement, by a race: each position arrives after an exponentially distributed time, which is shorter
// on average if its weight is larger (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
template <class T>
void draw_without_replacement(std::span<const T> weights, std::span<std::int64_t> positions, Generator& generator) {
  std::vector<std::pair<double, std::int64_t>> arrivals;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double waits = -std::log1p(-generator.uniform(0.0, 1.0));
    if (weights[i] > 0) arrivals.emplace_back(waits / static_cast<double>(weights[i]), static_cast<std::int64_t>(i));
  }
  const auto end = arrivals.begin() + static_cast<std::ptrdiff_t>(positions.size());
  std::partial_sort(arrivals.begin(), end, arrivals.end());
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = arrivals[i].second;
}

}  // namespace

Array multinomial(const Array& weights, std::int64_t count, bool replacement, Generator& generator) {
  const Scope scope("multinomial");
  TANDEM_CHECK((weights.ndim() == 1 || weights.ndim() == 2) && weights.dim(-1) > 0 && is_floating(weights.dtype()),
               "multinomial: weights must be (n) or (rows, n) of a floating dtype, got ", weights.shape(), ' ',
               weights.dtype());
  TANDEM_CHECK(weights.dim(-1) <= most_positions, "multinomial: weights may have at most ", most_positions,
               " positions, got ", weights.dim(-1));
  TANDEM_CHECK(count > 0, "multinomial: the number of draws must be positive, got ", count);
  const std::int64_t n = weights.dim(-1), rows = weights.numel() / n;
  Array result = Array::empty(weights.ndim() == 1 ? Shape{count} : Shape{rows, count}, DType::i64);
  const auto draw = [&]<class T>(const T* all) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<const T> of_row(all + row * n, static_cast<std::size_t>(n));
      const std::span positions(result.data<std::int64_t>() + row * count, static_cast<std::size_t>(count));
      std::int64_t positive = 0;
      for (const T w : of_row) {
        TANDEM_CHECK(std::isfinite(w) && w >= 0, "multinomial: a weight must be finite and not negative, got ", w,
                     " in row ", row);
        positive += w > 0;
      }
      TANDEM_CHECK(positive > 0, "multinomial: row ", row, " has no weight above 0");
      TANDEM_CHECK(replacement || count <= positive, "multinomial: ", count, " draws without replacement, but row ",
                   row, " has ", positive, " weights above 0");
      if (replacement || count == 1) draw_with_replacement(of_row, positions, generator);
      else draw_without_replacement(of_row, positions, generator);
    }
  };
  const Array host = weights.to(Device()).contiguous();
  if (host.dtype() == DType::f64) draw(host.data<double>());
  else draw(host.to(DType::f32).data<float>());
  return result.to(weights.device());
}

Array rand_like(const Array& like, std::optional<DType> dtype, Generator& generator) {
  return laid_out_as(like, rand(like.shape(), dtype.value_or(like.dtype()), like.device(), generator));
}
Array randn_like(const Array& like, std::optional<DType> dtype, Generator& generator) {
  return laid_out_as(like, randn(like.shape(), dtype.value_or(like.dtype()), like.device(), generator));
}

}  // namespace tandem::ops

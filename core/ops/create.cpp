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

Array full(const Shape& shape, double value, DType dtype, Device device) {
  Array result = Array::empty(shape, dtype, device);
  result.fill(value);
  return result;
}
Array zeros(const Shape& shape, DType dtype, Device device) { return Array::zeros(shape, dtype, device); }
Array ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }
Array scalar(double value, DType dtype, Device device) { return full({}, value, dtype, device); }

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 53;

// An Array of value(i) for each i, row by row. The values are computed on the host.
template <class T, class F>
Array computed(const Shape& shape, DType dtype, Device device, F value) {
  Array result = Array::empty(shape, dtype_of<T>());
  T* values = result.data<T>();
  const std::int64_t n = result.numel();
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(value(i));
  return result.to(dtype).to(device);
}

// An Array of random numbers. They are drawn in f64 for f64 and in f32 for other dtypes, as PyTorch's generator draws
// them.
template <class F>
Array drawn(const Shape& shape, DType dtype, Device device, const char* operation, F fill) {
  TANDEM_CHECK(is_floating(dtype), operation, ": needs a floating dtype, got ", dtype);
  Array result = Array::empty(shape, dtype == DType::f64 ? DType::f64 : DType::f32);
  if (dtype == DType::f64) fill(result.data<double>(), result.numel());
  else fill(result.data<float>(), result.numel());
  return result.to(dtype).to(device);
}

// `source` in the layout of `like`.
Array laid_out_as(const Array& like, const Array& source) {
  Array result = empty_like(like, source.dtype());
  result.copy_from(source);
  return result;
}

}  // namespace

Array arange(Number start, Number end, Number step, std::optional<DType> dtype, Device device) {
  const Scope scope("arange");
  TANDEM_CHECK(step.value != 0, "arange: the step must not be 0");
  const double count = std::ceil((end.value - start.value) / step.value);
  TANDEM_CHECK(count >= 0, "arange: from ", start.value, " there is no way to ", end.value, " by steps of ",
               step.value);
  TANDEM_CHECK(count <= static_cast<double>(most_elements), "arange: ", count,
               " numbers are more than any memory holds");
  const auto n = static_cast<std::int64_t>(count);
  const bool is_integer = start.is_integer && end.is_integer && step.is_integer;
  const DType wanted = dtype.value_or(is_integer ? DType::i64 : DType::f32);
  if (is_integer && !is_floating(wanted)) {
    const auto first = static_cast<std::int64_t>(start.value), by = static_cast<std::int64_t>(step.value);
    return computed<std::int64_t>({n}, wanted, device, [=](std::int64_t i) { return first + i * by; });
  }
  return computed<double>({n}, wanted, device,
                          [=](std::int64_t i) { return start.value + static_cast<double>(i) * step.value; });
}
Array arange(Number end, std::optional<DType> dtype, Device device) { return arange(0, end, 1, dtype, device); }

Array linspace(double start, double end, std::int64_t steps, DType dtype, Device device) {
  const Scope scope("linspace");
  TANDEM_CHECK(steps >= 0, "linspace: the number of steps must not be negative, got ", steps);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  // Each number is computed from the end that is nearer, so that both ends are exact.
  return computed<double>({steps}, dtype, device, [=](std::int64_t i) {
    return i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                       : end - step * static_cast<double>(steps - 1 - i);
  });
}

Array eye(std::int64_t n, std::optional<std::int64_t> m, DType dtype, Device device) {
  const Scope scope("eye");
  const std::int64_t columns = m.value_or(n), diagonal = std::min(n, columns);
  Array result = zeros({n, columns}, dtype, device);
  if (result.numel() > 0) Array(result.storage(), {diagonal}, {columns + 1}, 0, dtype).fill(1);
  return result;
}

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
  TANDEM_CHECK(low < high, "randint: nothing is in [", low, ", ", high, ")");
  TANDEM_CHECK(dtype == DType::i64 ||
                   (can_hold(dtype, static_cast<double>(low)) && can_hold(dtype, static_cast<double>(high - 1))),
               "randint: not all of [", low, ", ", high, ") are of ", dtype);
  return computed<std::int64_t>(shape, dtype, device, [&](std::int64_t) { return generator.integer(low, high); });
}

Array randperm(std::int64_t n, Device device, Generator& generator) {
  const Scope scope("randperm");
  Array::empty({n}, DType::i64);  // throws here when there is no memory for so many numbers
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

// A sum in f32 grows no more when so many equal weights are added up.
constexpr std::int64_t most_positions = 1 << 24;

// Draws with replacement, into `positions`: the first position at which the running share of the weights exceeds a
// uniform number. T is the type in which PyTorch adds up the weights.
template <class T>
void draw_with_replacement(std::span<const T> weights, std::span<std::int64_t> positions, Generator& generator) {
  std::vector<T> shares(weights.size());
  std::partial_sum(weights.begin(), weights.end(), shares.begin());
  const T sum = shares.back();
  TANDEM_CHECK(std::isfinite(sum), "multinomial: the sum of the weights is not finite: divide them by the largest one");
  for (T& share : shares) share /= sum;
  // The last share is 1 but for rounding. Positions behind the last weight above 0 are never drawn.
  const auto last = std::find_if(weights.rbegin(), weights.rend(), [](T w) { return w > 0; }).base() - 1;
  const auto end = shares.begin() + (last - weights.begin());
  for (std::int64_t& position : positions)
    position = std::upper_bound(shares.begin(), end, generator.uniform(0.0, 1.0),
                                [](double drawn, T share) { return drawn < share; }) -
               shares.begin();
}

// Draws without replacement: a race in which each position arrives after an exponentially distributed time, the sooner
// the larger its weight (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
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
  TANDEM_CHECK(weights.dim(-1) <= most_positions, "multinomial: at most ", most_positions,
               " positions can be drawn from, got ", weights.dim(-1));
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

Array empty_like(const Array& like, DType dtype) {
  // A dense channels-last input gives a channels-last output. An array that is both channels last and row-major counts
  // as row-major.
  if (like.is_channels_last() && !like.is_contiguous())
    return Array::empty_channels_last(like.shape(), dtype, like.device());
  return Array::empty(like.shape(), dtype, like.device());
}
Array empty_like(const Array& like) { return empty_like(like, like.dtype()); }
Array full_like(const Array& like, double value, std::optional<DType> dtype) {
  Array result = empty_like(like, dtype.value_or(like.dtype()));
  result.fill(value);
  return result;
}
Array zeros_like(const Array& like, std::optional<DType> dtype) { return full_like(like, 0, dtype); }
Array ones_like(const Array& like, std::optional<DType> dtype) { return full_like(like, 1, dtype); }
Array rand_like(const Array& like, std::optional<DType> dtype, Generator& generator) {
  return laid_out_as(like, rand(like.shape(), dtype.value_or(like.dtype()), like.device(), generator));
}
Array randn_like(const Array& like, std::optional<DType> dtype, Generator& generator) {
  return laid_out_as(like, randn(like.shape(), dtype.value_or(like.dtype()), like.device(), generator));
}

}  // namespace tandem::ops

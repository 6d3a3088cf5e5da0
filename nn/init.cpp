#include <tandem/nn/init.h>

#include <tandem/core/ops.h>

#include <algorithm>
#include <cmath>

namespace tandem::nn::init {

namespace {

// Random numbers in the order in which PyTorch draws them on the CPU. T is float or double.
template <class T>
std::vector<T> uniform_values(std::int64_t count, double low, double high, Generator& generator) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& v : values) v = generator.uniform(static_cast<T>(low), static_cast<T>(high));
  return values;
}

template <class T>
std::vector<T> normal_values(std::int64_t count, double mean, double std, Generator& generator) {
  std::vector<T> values(static_cast<std::size_t>(count));
  generator.fill_normal(values.data(), count, mean, std);
  return values;
}

template <class T>
void assign(const Tensor& tensor, const std::vector<T>& values) {
  Array target = tensor.value();
  target.copy_from(Array::from(values, tensor.shape()));
}

// Calls f(T{}), where T is the type in which numbers for `tensor` are drawn.
template <class F>
void dispatch_draw(const Tensor& tensor, const char* operation, const F& f) {
  TANDEM_CHECK(is_floating(tensor.dtype()), operation, ": needs a floating tensor, got ", tensor.dtype());
  if (tensor.dtype() == DType::f64) f(double{});
  else f(float{});
}

double xavier_std(const Tensor& tensor, double gain) {
  const auto fans = fan_in(tensor.shape()) + fan_out(tensor.shape());
  return gain * std::sqrt(2.0 / static_cast<double>(fans));
}

double kaiming_std(const Shape& shape, const KaimingOptions& options) {
  const auto fan = options.mode == FanMode::fan_in ? fan_in(shape) : fan_out(shape);
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(static_cast<double>(fan));
}

// Computes in PyTorch's order, so that the bound has the same bits as in PyTorch.
double uniform_bound(double std) { return std::sqrt(3.0) * std; }

}  // namespace

void uniform_(const Tensor& tensor, double low, double high, Generator& generator) {
  TANDEM_CHECK(low <= high, "uniform_: low must be at most high, got ", low, " and ", high);
  dispatch_draw(tensor, "uniform_",
                [&]<class T>(T) { assign(tensor, uniform_values<T>(tensor.numel(), low, high, generator)); });
}

void normal_(const Tensor& tensor, double mean, double std, Generator& generator) {
  TANDEM_CHECK(std >= 0, "normal_: std must not be negative, got ", std);
  dispatch_draw(tensor, "normal_",
                [&]<class T>(T) { assign(tensor, normal_values<T>(tensor.numel(), mean, std, generator)); });
}

void trunc_normal_(const Tensor& tensor, double mean, double std, double low, double high, Generator& generator) {
  TANDEM_CHECK(low < high && std > 0, "trunc_normal_: needs low < high and std > 0, got [", low, ", ", high, "] and ",
               std);
  const auto cdf = [&](double x) { return (1 + std::erf((x - mean) / std / std::sqrt(2.0))) / 2; };
  const std::int64_t count = tensor.numel();
  dispatch_draw(tensor, "trunc_normal_", [&]<class T>(T) {
    // As in PyTorch, numbers for the whole tensor are redrawn until every element has a number within the bounds.
    const auto a = static_cast<T>(low), b = static_cast<T>(high);
    if (cdf(high) - cdf(low) > 0.3) {
      auto values = normal_values<T>(count, mean, std, generator);
      const auto outside = [&](T v) { return v < a || v > b; };
      while (std::any_of(values.begin(), values.end(), outside)) {
        const auto others = normal_values<T>(count, mean, std, generator);
        for (std::size_t i = 0; i < values.size(); ++i)
          if (outside(values[i])) values[i] = others[i];
      }
      assign(tensor, values);
      return;
    }
    // Only a small part of the normal distribution lies between the bounds. Drawing uniform numbers between the bounds
    // is then faster, each accepted with a probability proportional to its density.
    const double top = (std::max(low, std::min(mean, high)) - mean) / std;
    const auto log_peak = static_cast<T>(-0.5 * top * top);
    std::vector<T> values(static_cast<std::size_t>(count));
    std::vector<char> pending(values.size(), 1);
    while (std::find(pending.begin(), pending.end(), 1) != pending.end()) {
      const auto candidates = uniform_values<T>(count, low, high, generator);
      const auto heights = uniform_values<T>(count, 0, 1, generator);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!pending[i]) continue;
        values[i] = candidates[i];
        const T x = (candidates[i] - static_cast<T>(mean)) / static_cast<T>(std);
        pending[i] = std::log(heights[i]) > x * x * static_cast<T>(-0.5) - log_peak;
      }
    }
    assign(tensor, values);
  });
}

void constant_(const Tensor& tensor, double value) { Array(tensor.value()).fill(value); }
void ones_(const Tensor& tensor) { constant_(tensor, 1); }
void zeros_(const Tensor& tensor) { constant_(tensor, 0); }

void eye_(const Tensor& tensor) {
  TANDEM_CHECK(tensor.shape().ndim() == 2, "eye_: expected shape (rows, columns), got ", tensor.shape());
  Array(tensor.value()).copy_from(ops::eye(tensor.dim(0), tensor.dim(1)));
}

double calculate_gain(Nonlinearity nonlinearity, std::optional<double> negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: return 1;
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::selu: return 3.0 / 4;
    case Nonlinearity::leaky_relu: break;
  }
  const double slope = negative_slope.value_or(0.01);
  return std::sqrt(2.0 / (1 + slope * slope));
}

std::int64_t fan_in(const Shape& weight) {
  TANDEM_CHECK(weight.ndim() >= 2, "fan_in: a weight must have at least 2 dimensions, got ", weight);
  return weight[0] == 0 ? 0 : weight.product() / weight[0];
}

std::int64_t fan_out(const Shape& weight) {
  TANDEM_CHECK(weight.ndim() >= 2, "fan_out: a weight must have at least 2 dimensions, got ", weight);
  return weight[1] == 0 ? 0 : weight.product() / weight[1];
}

void xavier_uniform_(const Tensor& tensor, double gain, Generator& generator) {
  const double bound = uniform_bound(xavier_std(tensor, gain));
  if (tensor.numel() > 0) uniform_(tensor, -bound, bound, generator);
}

void xavier_normal_(const Tensor& tensor, double gain, Generator& generator) {
  const double std = xavier_std(tensor, gain);
  if (tensor.numel() > 0) normal_(tensor, 0, std, generator);
}

void kaiming_uniform_(const Tensor& tensor, const KaimingOptions& options, Generator& generator) {
  const double bound = uniform_bound(kaiming_std(tensor.shape(), options));
  if (tensor.numel() > 0) uniform_(tensor, -bound, bound, generator);
}

void kaiming_normal_(const Tensor& tensor, const KaimingOptions& options, Generator& generator) {
  const double std = kaiming_std(tensor.shape(), options);
  if (tensor.numel() > 0) normal_(tensor, 0, std, generator);
}

void orthogonal_(const Tensor& tensor, double gain, Generator& generator) {
  TANDEM_CHECK(tensor.shape().ndim() >= 2, "orthogonal_: needs at least 2 dimensions, got ", tensor.shape());
  if (tensor.numel() == 0) return;
  const auto rows = static_cast<std::size_t>(tensor.dim(0));
  const std::size_t columns = static_cast<std::size_t>(tensor.numel()) / rows;
  dispatch_draw(tensor, "orthogonal_", [&]<class T>(T) {
    auto values = normal_values<T>(tensor.numel(), 0, 1, generator);
    // The Gram-Schmidt process on the rows or the columns, whichever are fewer. It removes from each vector its
    // components along the previous vectors, twice because of rounding. The result is the Q of a QR decomposition whose
    // R has a positive diagonal, which makes Q unique.
    const bool by_row = rows < columns;
    const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);
    const auto place = [&](std::size_t i, std::size_t k) { return by_row ? i * columns + k : k * columns + i; };
    std::vector<std::vector<double>> basis(count, std::vector<double>(length));
    for (std::size_t i = 0; i < count; ++i) {
      auto& v = basis[i];
      for (std::size_t k = 0; k < length; ++k) v[k] = values[place(i, k)];
      for (int round = 0; round < 2; ++round) {
        for (std::size_t j = 0; j < i; ++j) {
          double dot = 0;
          for (std::size_t k = 0; k < length; ++k) dot += basis[j][k] * v[k];
          for (std::size_t k = 0; k < length; ++k) v[k] -= dot * basis[j][k];
        }
      }
      double squares = 0;
      for (const double x : v) squares += x * x;
      for (double& x : v) x /= std::sqrt(squares);
      for (std::size_t k = 0; k < length; ++k) values[place(i, k)] = static_cast<T>(v[k] * gain);
    }
    assign(tensor, values);
  });
}

Array uniform(const Shape& shape, double bound, Generator& generator) {
  return Array::from(uniform_values<float>(shape.product(), -bound, bound, generator), shape);
}

Array kaiming_uniform(const Shape& shape, Generator& generator) {
  const double std = kaiming_std(shape, {.a = std::sqrt(5.0)});
  return uniform(shape, uniform_bound(std), generator);
}

}  // namespace tandem::nn::init

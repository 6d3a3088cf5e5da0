#include <tandem/core/base/scope.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/elementwise.h>

#include <algorithm>
#include <cmath>

namespace tandem::ops {

Array full(const Shape& shape, Number value, DType dtype, Device device) {
  Array result = Array::empty(shape, dtype, device);
  result.fill(value);
  return result;
}
Array zeros(const Shape& shape, DType dtype, Device device) { return Array::zeros(shape, dtype, device); }
Array ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }
Array scalar(Number value, DType dtype, Device device) { return full({}, value, dtype, device); }

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 53;

// Returns an Array of value(i) for each i, in row-major order. The host computes the values.
template <class T, class F>
Array computed(const Shape& shape, DType dtype, Device device, F value) {
  Array result = Array::empty(shape, dtype_of<T>());
  T* values = result.data<T>();
  const std::int64_t n = result.numel();
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(value(i));
  return result.to(dtype).to(device);
}

}  // namespace

Array arange(Number start, Number end, Number step, std::optional<DType> dtype, Device device) {
  const Scope scope("arange");
  TANDEM_CHECK(step.value != 0, "arange: the step must not be 0");
  const double count = std::ceil((end.value - start.value) / step.value);
  TANDEM_CHECK(count >= 0, "arange: starting at ", start.value, ", the end ", end.value,
               " can't be reached in steps of ", step.value);
  TANDEM_CHECK(count <= static_cast<double>(most_elements), "arange: ", count, " numbers do not fit into any memory");
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
  // Each number is computed from the nearer end, so both ends are exact.
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

Array empty_like(const Array& like, DType dtype) {
  // A dense channels-last input has a channels-last output. An array that is both channels last and row-major counts as
  // row-major.
  if (like.is_channels_last() && !like.is_contiguous())
    return Array::empty_channels_last(like.shape(), dtype, like.device());
  return Array::empty(like.shape(), dtype, like.device());
}
Array empty_like(const Array& like) { return empty_like(like, like.dtype()); }
Array full_like(const Array& like, Number value, std::optional<DType> dtype) {
  Array result = empty_like(like, dtype.value_or(like.dtype()));
  result.fill(value);
  return result;
}
Array zeros_like(const Array& like, std::optional<DType> dtype) { return full_like(like, 0, dtype); }
Array ones_like(const Array& like, std::optional<DType> dtype) { return full_like(like, 1, dtype); }

}  // namespace tandem::ops

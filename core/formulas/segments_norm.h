// The norm of all numbers of several arrays: what each thread accumulates, and how the final result follows from it.
// The formulas are the same on every device.
#pragma once

#include <tandem/core/base/dtype.h>

#include <cmath>

namespace tandem {

// The numbers of one array: f32, dense, on one device.
struct Segment {
  const float* numbers;
  std::int64_t numel;
};

enum class NormKind { two, largest, other };

inline NormKind norm_kind(double p) {
  return p == 2 ? NormKind::two : std::isinf(p) ? NormKind::largest : NormKind::other;
}

// Sums are computed in double: the square of any f32 fits, and the order of the numbers hardly affects the result.
template <NormKind kind>
struct NormSum {
  double total = 0;

  TANDEM_HOST_DEVICE void add(float number, double p) {
    const double size = std::fabs(static_cast<double>(number));
    if constexpr (kind == NormKind::two) total += size * size;
    else if constexpr (kind == NormKind::other) total += std::pow(size, p);
    else merge({size});
  }
  TANDEM_HOST_DEVICE void merge(const NormSum& other) {
    if constexpr (kind != NormKind::largest) total += other.total;
    else if (!(other.total <= total)) total = total != total ? total : other.total;  // a NaN stays
  }
  TANDEM_HOST_DEVICE float norm(double p) const {
    if constexpr (kind == NormKind::two) return static_cast<float>(std::sqrt(total));
    else if constexpr (kind == NormKind::other) return static_cast<float>(std::pow(total, 1 / p));
    else return static_cast<float>(total);
  }
};

// Calls f(std::integral_constant<NormKind, kind>{}), where `kind` is the kind of norm for p.
template <class F>
void with_norm_kind(double p, F f) {
  switch (norm_kind(p)) {
    case NormKind::two: return f(std::integral_constant<NormKind, NormKind::two>{});
    case NormKind::largest: return f(std::integral_constant<NormKind, NormKind::largest>{});
    case NormKind::other: return f(std::integral_constant<NormKind, NormKind::other>{});
  }
}

}  // namespace tandem

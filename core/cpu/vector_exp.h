// exp of several numbers at once.
#pragma once

#include <tandem/core/cpu/simd.h>

namespace tandem::cpu {

// For x up to 88, to 2 units in the last place; results below the smallest normal number are 0, NaN stays NaN. The range is
// reduced to |r| < log(2) / 2, where the polynomial is that of the Cephes library (S. L. Moshier).
template <int L>
inline vec<float, L> vector_exp(vec<float, L> x) {
  constexpr float log2_e = 1.44269504088896341f, lowest = -87.33654f;
  constexpr float to_integer = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
  const auto vanishes = x < lowest;
  x = vanishes ? vec<float, L>{} : x;
  const vec<float, L> n = (x * log2_e + to_integer) - to_integer;
  const vec<float, L> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // log(2) in two parts
  vec<float, L> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + (r + 1.f);
  const auto power =
      std::bit_cast<vec<float, L>>((__builtin_convertvector(n, vec<std::int32_t, L>) + 127) << 23);
  return vanishes ? vec<float, L>{} : p * power;
}

}  // namespace tandem::cpu

// Normally distributed numbers, bitwise identical to those of PyTorch's CPU generator.
#include <tandem/core/base/check.h>
#include <tandem/core/random/random.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

namespace tandem {

namespace {

// The single-precision logarithm, sine and cosine of the Cephes library (S. Moshier, 1984-2000). Operations follow the
// order of PyTorch's vector code. Multiplications and additions that are fused in that code are fused here.
float cephes_log(float x) {
  if (!(x > 0)) return std::numeric_limits<float>::quiet_NaN();
  x = std::fmax(x, std::numeric_limits<float>::min());
  const auto bits = std::bit_cast<std::uint32_t>(x);
  auto exponent = static_cast<float>(static_cast<int>(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);  // in [0.5, 1)
  x = mantissa - 1;
  if (mantissa < 0.707106781186547524f) {
    exponent -= 1;
    x += mantissa;
  }
  float y = 7.0376836292E-2f;
  for (const float c : {-1.1514610310E-1f, 1.1676998740E-1f, -1.2420140846E-1f, 1.4249322787E-1f, -1.6668057665E-1f,
                        2.0000714765E-1f, -2.4999993993E-1f, 3.3333331174E-1f})
    y = std::fma(y, x, c);
  const float square = x * x;
  y *= x;
  const float small_part = exponent * -2.12194440e-4f;
  y = std::fma(y, square, small_part);
  y = std::fma(-square, 0.5f, y);
  return std::fma(exponent, 0.693359375f, x + y);
}

// Computes the sine and cosine of x, an angle in [0, 2 pi].
void cephes_sincos(float x, float& sine, float& cosine) {
  const int octant = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  const auto turns = static_cast<float>(octant);
  for (const float part : {-0.78515625f, -2.4187564849853515625e-4f, -3.77489497744594108e-8f})
    x = std::fma(turns, part, x);
  const float square = x * x, half_square = square * 0.5f;
  float even = std::fma(2.443315711809948E-5f, square, -1.388731625493765E-3f);
  even = std::fma(even, square, 4.166664568298827E-2f) * square;
  even = std::fma(even, square, -half_square) + 1;
  float odd = std::fma(-1.9515295891E-4f, square, 8.3321608736E-3f);
  odd = std::fma(odd, square, -1.6666654611E-1f) * square;
  odd = std::fma(odd, x, x);
  const bool swaps = (octant & 2) != 0;
  sine = swaps ? even : odd;
  cosine = swaps ? odd : even;
  if (octant & 4) sine = -sine;
  if (~(octant - 2) & 4) cosine = -cosine;
}

void box_muller(float* block) {
  for (int i = 0; i < 8; ++i) {
    const float radius = std::sqrt(-2.0f * cephes_log(1 - block[i]));
    float sine, cosine;
    cephes_sincos(2 * std::numbers::pi_v<float> * block[i + 8], sine, cosine);
    block[i] = radius * cosine;
    block[i + 8] = radius * sine;
  }
}

void box_muller(double* block) {
  for (int i = 0; i < 8; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - block[i]));
    const double angle = 2 * std::numbers::pi * block[i + 8];
    block[i] = radius * std::cos(angle);
    block[i + 8] = radius * std::sin(angle);
  }
}

template <class T>
void fill(Generator& generator, T* values, std::int64_t n, double mean, double std) {
  constexpr std::int64_t block = 16;
  if (n < block) {
    for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(generator.normal() * std + mean);
    return;
  }
  const auto draw = [&](T* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = generator.uniform(T(0), T(1));
  };
  draw(values, n);
  for (std::int64_t i = 0; i + block <= n; i += block) box_muller(values + i);
  if (n % block != 0) {  // like PyTorch, draws the last 16 numbers again, although they overlap the previous block
    draw(values + n - block, block);
    box_muller(values + n - block);
  }
  if (mean == 0 && std == 1) return;
  for (std::int64_t i = 0; i < n; ++i) values[i] = std::fma(values[i], static_cast<T>(std), static_cast<T>(mean));
}

}  // namespace

double Generator::normal() {
  if (next_normal_) {
    const double value = *next_normal_;
    next_normal_.reset();
    return value;
  }
  const double turn = uniform(0.0, 1.0), chance = uniform(0.0, 1.0);
  const double radius = std::sqrt(-2 * std::log1p(-chance)), angle = 2 * std::numbers::pi * turn;
  next_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void Generator::fill_normal(float* values, std::int64_t n, double mean, double std) {
  fill(*this, values, n, mean, std);
}
void Generator::fill_normal(double* values, std::int64_t n, double mean, double std) {
  fill(*this, values, n, mean, std);
}

std::int64_t Generator::integer(std::int64_t low, std::int64_t high) {
  TANDEM_CHECK(low < high, "random integer: there is no integer in [", low, ", ", high, ")");
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const std::uint64_t drawn = count >= std::uint64_t{1} << 28 ? next_u64() : next_u32();
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + drawn % count);
}

}  // namespace tandem

#include <tandem/core/cpu/conv/cook_toom_choice.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace tandem::cpu {

namespace {

// The costs of the parts of a method, in cycles per 16 numbers unless stated otherwise. They were fitted to 94 layers
// of 3 x 3 and 5 x 5 kernels with 4 to 128 channels and 4 to 112 pixels a side, forward and both gradients, on one core
// of an AMD EPYC (Zen 4, AVX-512). For layers that take longer than their transforms, the estimates are within 15 % of
// the measured times. A core with only AVX2 needs about twice the cycles, with tiles and without. A core of an Intel
// Xeon with AVX-512 needs half the cycles, since it has two units for products of 512 bits. Only ratios matter for the
// choice, so just two costs differ on Intel: those of ProcessorCosts (fitted to 60 layers).
struct TileCosts {
  const CookToomScheme* scheme;
  double to_places, to_pixels;  // for a tile along one axis
  double error_penalty;         // multiplies the cost; higher for larger errors
  double error;                 // RMS along both axes with 32 inputs, in millionths
};
constexpr std::array<TileCosts, 1> kernel_1{{{&scheme<1, 1>, 5, 4, 1, 0.2}}};
constexpr std::array<TileCosts, 4> kernel_3{{{&scheme<2, 3>, 16, 13, 1, 0.25},
                                             {&scheme<4, 3>, 33, 27, 1, 0.7},
                                             {&scheme<6, 3>, 53, 40, 1.06, 2.6},
                                             {&scheme<7, 3>, 64, 50, 1.06, 6.1}}};
constexpr std::array<TileCosts, 3> kernel_5{
    {{&scheme<2, 5>, 33, 20, 1, 0.75}, {&scheme<4, 5>, 53, 35, 1, 2.6}, {&scheme<5, 5>, 64, 42, 1, 5.3}}};
// The costs of seven taps were not fitted. to_places is that of the 3 x 3 and 5 x 5 tiles with the same n (8 and 9).
constexpr std::array<TileCosts, 2> kernel_7{{{&scheme<2, 7>, 53, 28, 1, 3.4}, {&scheme<3, 7>, 64, 35, 1, 6.3}}};

// The error of a tile is about the geometric mean of the errors of its two axes. It grows with the length of sums, up
// to the 128 inputs that are added up in one pass.
constexpr double most_error = 6;
double error_of(const TileCosts& rows, const TileCosts& columns) { return std::sqrt(rows.error * columns.error); }
bool is_exact_enough(const TileCosts& rows, const TileCosts& columns, std::int64_t inputs) {
  const double longer = static_cast<double>(std::clamp<std::int64_t>(inputs, 32, 128)) / 32;
  return error_of(rows, columns) * std::sqrt(longer) <= most_error;
}
// The error of both gradients is larger: inputs from ReLUs are not negative, so their products with the powers of the
// points add up. The sums of the weight's gradient run over tiles, so the number of inputs does not affect its error.
constexpr double error_of_both_gradients = 1.3;

// Costs whose ratio to the other costs differs between the measured processors.
struct ProcessorCosts {
  double product_end;     // of a sum of products
  double direct_product;  // one number times 16, in direct sums
};
const ProcessorCosts& costs() {
  [[maybe_unused]] constexpr static ProcessorCosts zen_4{3, 1.03}, xeon{8, 0.87};
#ifdef __AVX512F__
  static const bool is_intel = __builtin_cpu_is("intel");
  return is_intel ? xeon : zen_4;
#else
  return zen_4;
#endif
}
constexpr double product = 1.05;     // one number times 16
constexpr double copied_pixel = 4;   // in a row before its transform
constexpr double odd_channel = 1.5;  // a channel beyond whole vectors, per pixel
constexpr double call = 80;          // of a transform, whatever its size
// The cost of transforming, writing and reading one number of the weight's matrices: if the matrices stay in the cache,
// and if they do not. The images of a batch share this cost.
constexpr double cached_weight = 1, large_weight = 2.5, cache_numbers = 1 << 18, batch = 16;
constexpr double direct_row = 300;
// The speedup of direct sums in bf16 with AVX-512's instructions (measured on Zen 4). oneDNN uses the AMX unit if the
// processor has one. The peak of that unit is eight times as high. Its speed was not measured.
double bf16_speedup() { return __builtin_cpu_supports("amx-bf16") ? 15 : 1.85; }

double vectors(std::int64_t channels) { return static_cast<double>((channels + 15) / 16); }
double beyond_vectors(std::int64_t channels) { return static_cast<double>(channels % 16); }

double tiles(std::int64_t outputs, std::int64_t dilation, int m) {
  const std::int64_t whole = outputs / dilation, longer = outputs % dilation;
  return static_cast<double>(longer * ((whole + m) / m) +
                             (std::min(dilation, outputs) - longer) * ((whole + m - 1) / m));
}

double cycles(const TileCosts& rows, const TileCosts& columns, Extent dilation, Extent size, std::int64_t inputs,
              std::int64_t outputs) {
  const double in = vectors(inputs), out = vectors(outputs);
  const double down_places = rows.scheme->n(), across_places = columns.scheme->n();
  const double down = tiles(size.h, dilation.h, rows.scheme->m), across = tiles(size.w, dilation.w, columns.scheme->m);
  const double height = static_cast<double>(size.h), pixels = height * static_cast<double>(size.w),
               places = down_places * across_places;
  const double products = down * across * places * out * (static_cast<double>(inputs) * product + costs().product_end);
  const double to_places = across * in * (height * columns.to_places + across_places * down * rows.to_places) +
                           pixels * (copied_pixel * in + odd_channel * beyond_vectors(inputs));
  const double to_pixels = across * out * (height * columns.to_pixels + across_places * down * rows.to_pixels) +
                           pixels * odd_channel * beyond_vectors(outputs);
  const double calls = call * (2 * across_places + 3 * height);
  const double numbers = places * static_cast<double>(inputs) * out * 16;
  const double weight = numbers * (numbers < cache_numbers ? cached_weight : large_weight);
  return (products + to_places + to_pixels + calls + weight / batch) * rows.error_penalty * columns.error_penalty;
}

std::span<const TileCosts> schemes_of(std::int64_t taps) {
  if (taps == 1) return kernel_1;
  if (taps == 3) return kernel_3;
  if (taps == 5) return kernel_5;
  if (taps == 7) return kernel_7;
  return {};
}

}  // namespace

bool has_tiles(Extent kernel) {
  return kernel != Extent(1) && !schemes_of(kernel.h).empty() && !schemes_of(kernel.w).empty();
}

CookToomChoice choose_cook_toom(Extent kernel, Extent dilation, Extent size, std::int64_t inputs,
                                std::int64_t outputs) {
  CookToomChoice best;
  if (!has_tiles(kernel)) return best;
  for (const TileCosts& rows : schemes_of(kernel.h))
    for (const TileCosts& columns : schemes_of(kernel.w)) {
      if (!is_exact_enough(rows, columns, inputs)) continue;
      const double found = cycles(rows, columns, dilation, size, inputs, outputs);
      if (!best.rows || found < best.cycles)
        best = {rows.scheme, columns.scheme, found, 0, error_of(rows, columns) * error_of_both_gradients <= most_error};
    }
  return best;
}

double direct_cycles(Extent kernel, Extent size, std::int64_t inputs, std::int64_t outputs, double share, DType dtype) {
  const auto products = static_cast<double>(size.h * size.w * kernel.h * kernel.w * inputs) * vectors(outputs);
  const double faster = dtype == DType::f32 ? 1 : bf16_speedup();
  return products * share * costs().direct_product / faster + static_cast<double>(size.h) * direct_row;
}

std::string CookToomChoice::describe() const {
  const auto scheme = [](const CookToomScheme& s) {
    return "F(" + std::to_string(s.m) + ", " + std::to_string(s.r) + ")";
  };
  const auto percent = static_cast<int>(100 * cycles / direct_cycles + 0.5);
  return "tiles of " + scheme(*rows) + " by " + scheme(*columns) + ", estimated at " + std::to_string(percent) +
         " % of direct sums";
}

}  // namespace tandem::cpu

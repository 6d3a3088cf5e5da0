#include <tandem/core/random/random.h>

#include <tandem/core/base/check.h>
#include <tandem/core/random/philox.h>

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <locale>
#include <numeric>
#include <sstream>
#include <utility>

namespace tandem {

void Generator::manual_seed(std::uint64_t seed) {
  engine_.seed(static_cast<std::mt19937::result_type>(seed & 0xffffffffu));
  next_normal_.reset();
}

std::uint64_t Generator::next_u64() {
  const std::uint64_t high = next_u32();
  return high << 32 | next_u32();
}

// PyTorch's build contracts x * (high - low) + low into one fused multiply-add. std::fma states it explicitly, so the
// result does not depend on how our compiler contracts.
float Generator::uniform(float low, float high) {
  const float x = static_cast<float>(next_u32() & 0xffffffu) * 0x1p-24f;
  return std::fma(x, high - low, low);
}

double Generator::uniform(double low, double high) {
  const double x = static_cast<double>(next_u64() & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
  return std::fma(x, high - low, low);
}

std::vector<std::int64_t> Generator::permutation(std::int64_t n) {
  TANDEM_CHECK(n >= 0, "permutation: the length must not be negative, got ", n);
  std::vector<std::int64_t> result(static_cast<std::size_t>(n));
  if (n < std::numeric_limits<std::uint32_t>::max() / 20) {
    std::iota(result.begin(), result.end(), std::int64_t{0});
    for (std::int64_t i = 0; i < n - 1; ++i) {
      const auto step = next_u32() % static_cast<std::uint64_t>(n - i);
      std::swap(result[static_cast<std::size_t>(i)], result[static_cast<std::size_t>(i) + step]);
    }
    return result;
  }
  // For such a large length, 32 random bits modulo the length would be visibly uneven. PyTorch draws 64 bits here and
  // uses the inside-out shuffle.
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto from = next_u64() % (i + 1);
    result[i] = result[from];
    result[from] = static_cast<std::int64_t>(i);
  }
  return result;
}

std::string Generator::state() const {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << "mt19937 " << engine_;
  if (next_normal_) out << " normal " << std::bit_cast<std::uint64_t>(*next_normal_);
  return out.str();
}

void Generator::set_state(const std::string& state) {
  std::istringstream in(state);
  in.imbue(std::locale::classic());
  std::string algorithm;
  in >> algorithm;
  // Each number is checked, because the stream operator of std::mt19937 accepts any number.
  constexpr auto words = std::mt19937::state_size;
  std::ostringstream checked;
  checked.imbue(std::locale::classic());
  std::size_t count = 0;
  for (std::uint64_t number; count <= words && in >> number; ++count) {
    const std::uint64_t limit = count < words ? 0xffffffffu : words;
    TANDEM_CHECK(number <= limit, "generator state: number ", count, " is ", number, ", but may be at most ", limit);
    checked << number << ' ';
  }
  std::optional<double> normal;
  in.clear();
  if (std::string word; in >> word) {
    std::uint64_t bits = 0;
    if (word == "normal" && in >> bits) normal = std::bit_cast<double>(bits);
    else ++count;  // the text continues with something else
  }
  in.clear();
  TANDEM_CHECK(algorithm == "mt19937" && count == words + 1 && (in >> std::ws).eof(),
               "generator state: expected \"mt19937\" and ", words + 1,
               " numbers, as Generator::state() returns; found ", count, " numbers in ", state.size(),
               " characters beginning \"", state.substr(0, 24), "\"");
  std::istringstream text(checked.str());
  text.imbue(std::locale::classic());
  text >> engine_;
  next_normal_ = normal;
}

namespace {

std::uint64_t first_seed() {
  static std::atomic<std::uint32_t> others{0};
  if (gettid() == getpid()) return 0;
  // Seeds that no program is likely to choose: 1, 2, ... would be those of a manual_seed(1).
  return philox({++others}, {0x7468'7265, 0x6164'7300})[0];
}

}  // namespace

Generator& default_generator() {
  thread_local Generator generator(first_seed());
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  std::uint32_t words[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox_rounds(words, std::uint64_t{key[1]} << 32 | key[0]);
  return std::to_array(words);
}

}  // namespace tandem

#include "random_order.h"

#include <cstdlib>
#include <string>

namespace emulation {

std::uint64_t seed_of_orders() {
  static const std::uint64_t seed = [] {
    if (const char* given = std::getenv("TANDEM_EMULATED_SEED")) return std::strtoull(given, nullptr, 10);
    const unsigned long long drawn = std::random_device()();
    setenv("TANDEM_EMULATED_SEED", std::to_string(drawn).c_str(), 1);
    return drawn;
  }();
  return seed;
}

}  // namespace emulation

// Chooses a random order for work that a GPU may do in any order. It is drawn from a seed: the number in the
// environment variable TANDEM_EMULATED_SEED, or a new one.
#pragma once

#include <cstdint>
#include <random>

namespace emulation {

using Random = std::mt19937_64;
// The first call sets TANDEM_EMULATED_SEED, so that child processes have the same seed.
std::uint64_t seed_of_orders();

}  // namespace emulation

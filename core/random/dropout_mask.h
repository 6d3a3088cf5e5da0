// Decides which numbers dropout keeps. The decision is a function of a key and a number's position in memory. Every
// device therefore drops the same numbers, and the backward pass needs the key but no stored mask.
#pragma once

#include <tandem/core/random/philox.h>

namespace tandem {

// Numbers are processed in blocks of 64, and each Philox counter yields four random words. The words of counter 16 *
// block + lane belong to the numbers lane, 16 + lane, 32 + lane and 48 + lane of the block.
struct DropoutMask {
  static constexpr int lanes = 16, block = 64;
  std::uint64_t key;
  std::uint64_t threshold;  // a number whose word is below the threshold is dropped
  double scale;             // the factor that multiplies kept numbers

  DropoutMask(std::uint64_t key, double p)
      : key(key), threshold(static_cast<std::uint64_t>(p * 4294967296.0)), scale(p < 1 ? 1 / (1 - p) : 0) {}
  TANDEM_HOST_DEVICE bool keeps(std::uint32_t word) const { return word >= threshold; }
};

}  // namespace tandem

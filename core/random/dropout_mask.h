// Which numbers dropout keeps: a function of a key and of the place in memory order, so that every device drops the
// same ones, and backward needs no mask but the key.
#pragma once

#include <tandem/core/random/philox.h>

namespace tandem {

// Numbers come in blocks of 64: the words of counter 16 * block + lane belong to numbers lane, 16 + lane, 32 + lane and
// 48 + lane of the block.
struct DropoutMask {
  static constexpr int lanes = 16, block = 64;
  std::uint64_t key;
  std::uint64_t threshold;  // words below it drop their number
  double scale;             // of what is kept

  DropoutMask(std::uint64_t key, double p)
      : key(key), threshold(static_cast<std::uint64_t>(p * 4294967296.0)), scale(p < 1 ? 1 / (1 - p) : 0) {}
  TANDEM_HOST_DEVICE bool keeps(std::uint32_t word) const { return word >= threshold; }
};

}  // namespace tandem

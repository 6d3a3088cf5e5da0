// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and what is drawn from it, for
// every device. philox() in core/random.h is the same function of the host.
#pragma once

#include <tandem/core/half.h>

#include <cstdint>

namespace tandem {

struct PhiloxWords {
  std::uint32_t words[4];
};

// One round: `key` moves on by itself.
TANDEM_HOST_DEVICE inline void philox_round(PhiloxWords& c, std::uint32_t key_0, std::uint32_t key_1) {
  const std::uint64_t product_0 = std::uint64_t{0xD2511F53} * c.words[0];
  const std::uint64_t product_1 = std::uint64_t{0xCD9E8D57} * c.words[2];
  c = {{static_cast<std::uint32_t>(product_1 >> 32) ^ c.words[1] ^ key_0,
        static_cast<std::uint32_t>(product_1),
        static_cast<std::uint32_t>(product_0 >> 32) ^ c.words[3] ^ key_1,
        static_cast<std::uint32_t>(product_0)}};
}

// Four random words for the place `counter` of the sequence `key`.
TANDEM_HOST_DEVICE inline PhiloxWords philox_words(std::uint64_t counter, std::uint64_t key) {
  PhiloxWords c{{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}};
  auto key_0 = static_cast<std::uint32_t>(key), key_1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    philox_round(c, key_0, key_1);
    key_0 += 0x9E3779B9;
    key_1 += 0xBB67AE85;
  }
  return c;
}

}  // namespace tandem

// The rounds of Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), for every
// device: one counter, or several side by side.
#pragma once

#include <tandem/core/base/half.h>

#include <cstdint>
#include <type_traits>

namespace tandem {

// Replaces a counter, in place, by its four random words. W is std::uint32_t for one counter, or a vector of
// std::uint64_t for several counters side by side. In a vector, the lower half of each lane contains a counter's word,
// and the upper half is unused: processors multiply the lower halves of two lanes into a full lane.
template <class W>
TANDEM_HOST_DEVICE inline void philox_rounds(W (&words)[4], std::uint64_t key) {
  using Product = std::conditional_t<std::is_same_v<W, std::uint32_t>, std::uint64_t, W>;
  constexpr std::uint64_t lower_half = 0xffffffff;
  auto key_0 = static_cast<std::uint32_t>(key), key_1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Product product_0 = (static_cast<Product>(words[0]) & lower_half) * std::uint64_t{0xD2511F53};
    const Product product_1 = (static_cast<Product>(words[2]) & lower_half) * std::uint64_t{0xCD9E8D57};
    words[0] = static_cast<W>(product_1 >> 32) ^ words[1] ^ key_0;
    words[1] = static_cast<W>(product_1);
    words[2] = static_cast<W>(product_0 >> 32) ^ words[3] ^ key_1;
    words[3] = static_cast<W>(product_0);
    key_0 += 0x9E3779B9;  // golden ratio
    key_1 += 0xBB67AE85;  // sqrt(3) - 1
  }
}

}  // namespace tandem

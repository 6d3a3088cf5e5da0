// The channels of a pixel, a few lanes at a time.
#pragma once

#include <tandem/core/cpu/simd.h>

namespace tandem::cpu {

// Calls f(std::integral_constant<int, L>, c) for blocks of up to 64 bytes of computed numbers that cover all channels.
// The last two may overlap: f must give the same for a channel each time.
template <class C, int L = 64 / sizeof(C), class F>
inline void cover_channels(std::int64_t channels, F f) {
  if constexpr (L > 1) {
    if (channels < L) return cover_channels<C, L / 2>(channels, f);
  }
  std::int64_t c = 0;
  for (; c + L <= channels; c += L) f(std::integral_constant<int, L>{}, c);
  if (c < channels) f(std::integral_constant<int, L>{}, channels - L);
}

}  // namespace tandem::cpu

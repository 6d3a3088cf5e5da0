// Goes over the channels of a pixel, a few lanes at a time.
#pragma once

#include <tandem/core/cpu/simd.h>

namespace tandem::cpu {

// Calls f(std::integral_constant<int, L>, c) for blocks of L channels, from channel c on, that cover all channels. A
// block has up to a register of numbers of C, the type that is computed in. The last two blocks may overlap, so f must
// give the same result for a channel each time.
template <class C, int L = register_bytes / sizeof(C), class F>
inline void cover_channels(std::int64_t channels, F f) {
  if constexpr (L > 1) {
    if (channels < L) return cover_channels<C, L / 2>(channels, f);
  }
  std::int64_t c = 0;
  for (; c + L <= channels; c += L) f(std::integral_constant<int, L>{}, c);
  if (c < channels) f(std::integral_constant<int, L>{}, channels - L);
}

}  // namespace tandem::cpu

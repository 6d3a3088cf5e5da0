#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/random/dropout_mask.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tandem {

namespace {

constexpr int lanes = DropoutMask::lanes, block = DropoutMask::block;

// Computes the random words of a block, in the order of the block's numbers. Lane i of the two vectors computes the
// counters 2 i and 2 i + 1.
void words_of_block(std::uint64_t index, std::uint64_t key, std::uint32_t (&words)[block]) {
  using V = cpu::vec<std::uint64_t, lanes / 2>;
  const std::uint64_t counter = index * lanes;
  V even[4]{}, odd[4]{};
  for (int i = 0; i < lanes / 2; ++i) {
    even[0][i] = counter + static_cast<std::uint64_t>(2 * i);
    odd[0][i] = counter + static_cast<std::uint64_t>(2 * i + 1);
  }
  even[1] += counter >> 32;
  odd[1] += counter >> 32;
  philox_rounds(even, key);
  philox_rounds(odd, key);
  for (int k = 0; k < 4; ++k) {
    const V both = (even[k] & 0xffffffff) | odd[k] << 32;
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(words + k * lanes, &both, sizeof both);
  }
}

}  // namespace

void CpuBackend::write_dropout_key(std::uint64_t, const Array&) {}

void CpuBackend::dropout(const Array& x, const DropoutKey& key, double p, const Array& y) {
  const DropoutMask mask(key.number, p);
  const std::int64_t count = x.numel();
  dispatch_floating(x.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    const C scale = static_cast<C>(mask.scale);
    // A threshold of 2^32 drops every number. It does not fit in 32 bits, but the scale is then 0, so the result is the
    // same.
    const auto threshold = static_cast<std::uint32_t>(std::min<std::uint64_t>(mask.threshold, 0xffffffffu));
    constexpr std::int64_t batch = 64;
    const std::int64_t blocks = (count + block - 1) / block;
    cpu::parallel_for((blocks + batch - 1) / batch, count, [&](std::int64_t k) {
      std::uint32_t words[block];
      for (std::int64_t b = k * batch; b < std::min(blocks, (k + 1) * batch); ++b) {
        words_of_block(static_cast<std::uint64_t>(b), mask.key, words);
        const T* from = in + b * block;
        T* to = out + b * block;
        const std::int64_t n = std::min<std::int64_t>(block, count - b * block);
        if (n == block) {
          for (int i = 0; i < block; ++i) {
            const C kept = static_cast<C>(from[i]) * scale;
            to[i] = static_cast<T>(words[i] >= threshold ? kept : C(0));
          }
        } else {
          for (int i = 0; i < n; ++i)
            to[i] = static_cast<T>(words[i] >= threshold ? static_cast<C>(from[i]) * scale : C(0));
        }
      }
    });
  });
}

}  // namespace tandem

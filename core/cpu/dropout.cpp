#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/dropout_mask.h>

#include <algorithm>

namespace tandem {

namespace {

constexpr int lanes = DropoutMask::lanes, block = DropoutMask::block;

// The words of a block, in the order of its numbers; plain loops over lanes, which the compiler vectorises.
void words_of_block(std::uint64_t index, std::uint64_t key, std::uint32_t (&words)[block]) {
  const std::uint64_t counter = index * lanes;
  for (int i = 0; i < lanes; ++i) {
    words[i] = static_cast<std::uint32_t>(counter) + static_cast<std::uint32_t>(i);
    words[lanes + i] = static_cast<std::uint32_t>(counter >> 32);
    words[2 * lanes + i] = words[3 * lanes + i] = 0;
  }
  auto key_0 = static_cast<std::uint32_t>(key), key_1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < lanes; ++i) {
      PhiloxWords c{{words[i], words[lanes + i], words[2 * lanes + i], words[3 * lanes + i]}};
      philox_round(c, key_0, key_1);
      for (int k = 0; k < 4; ++k) words[k * lanes + i] = c.words[k];
    }
    key_0 += 0x9E3779B9;
    key_1 += 0xBB67AE85;
  }
}

}  // namespace

void CpuBackend::dropout(const Array& x, std::uint64_t key, double p, const Array& y) {
  const DropoutMask mask(key, p);
  const std::int64_t count = x.numel();
  dispatch_floating(x.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* in = static_cast<const T*>(x.raw());
    T* out = static_cast<T*>(y.raw());
    const C scale = static_cast<C>(mask.scale);
    // threshold 2^32, which drops everything, is scale 0 as well.
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

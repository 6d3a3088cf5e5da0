#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/index_fault.h>
#include <tandem/core/normalize.h>

#include <algorithm>
#include <cstring>

namespace tandem {

// On the caller's thread alone: a loader has as many workers as it wants, and copying soon waits for memory, not for cores.

std::int64_t CpuBackend::gather_rows(const Array& rows, const Array& index, const Array& out) {
  const std::int64_t n = index.numel(), count = rows.dim(0);
  const std::int64_t* wanted = index.data<std::int64_t>();
  if (const auto bad = first_outside(wanted, n, count); bad >= 0) return bad;
  const std::size_t bytes = rows.bytes() / static_cast<std::size_t>(count);
  const auto* from = static_cast<const std::byte*>(rows.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  for (std::int64_t i = 0; i < n; ++i, to += bytes)
    std::memcpy(to, from + static_cast<std::size_t>(wanted[i]) * bytes, bytes);
  return -1;
}

std::int64_t CpuBackend::gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                           const Array& out) {
  const std::int64_t n = index.numel(), count = rows.dim(0);
  const std::int64_t* wanted = index.data<std::int64_t>();
  if (const auto bad = first_outside(wanted, n, count); bad >= 0) return bad;
  const std::int64_t size = rows.numel() / count;
  const auto* from = rows.data<std::uint8_t>();
  const auto gather = [&](auto normalize) {
    auto* to = out.data<float>();
    for (std::int64_t i = 0; i < n; ++i)
      to = std::transform(from + wanted[i] * size, from + (wanted[i] + 1) * size, to, normalize);
  };
  // With constants the compiler leaves out what changes nothing: the second division, which takes the longest.
  if (mean == 0 && std == 1) gather([](std::uint8_t byte) { return Normalize{}(byte); });
  else gather(Normalize{mean, std});
  return -1;
}

}  // namespace tandem

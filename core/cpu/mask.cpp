#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <cstring>

namespace tandem {

void CpuBackend::triangle(const Array& x, std::int64_t diagonal, bool keep_upper, const Array& y) {
  const std::int64_t rows = y.shape()[1], columns = y.shape()[2];
  const std::size_t bytes = size_of(x.dtype()), row_bytes = static_cast<std::size_t>(columns) * bytes;
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  cpu::parallel_for(y.shape()[0] * rows, y.numel(), [&](std::int64_t r) {
    // The columns before `border` belong to the lower triangle.
    const std::int64_t border = std::clamp<std::int64_t>(r % rows + diagonal + (keep_upper ? 0 : 1), 0, columns);
    const std::size_t start = static_cast<std::size_t>(r) * row_bytes, low = static_cast<std::size_t>(border) * bytes;
    const std::size_t kept = keep_upper ? low : 0, kept_end = keep_upper ? row_bytes : low;
    const std::size_t zeroed = keep_upper ? 0 : low, zeroed_end = keep_upper ? low : row_bytes;
    std::memcpy(to + start + kept, from + start + kept, kept_end - kept);
    std::memset(to + start + zeroed, 0, zeroed_end - zeroed);
  });
}

void CpuBackend::count_true(const Array& mask, const Array& before) {
  const std::int64_t n = mask.numel(), chunks = before.numel() - 1;
  const auto* m = static_cast<const std::uint8_t*>(mask.raw());
  auto* counts = static_cast<std::int64_t*>(before.raw());
  counts[0] = 0;
  cpu::parallel_for(chunks, n, [&](std::int64_t c) {
    int count = 0;
    for (std::int64_t i = c * mask_chunk, end = std::min(n, i + mask_chunk); i < end; ++i) count += m[i];
    counts[c + 1] = count;
  });
  for (std::int64_t c = 0; c < chunks; ++c) counts[c + 1] += counts[c];
}

void CpuBackend::true_positions(const Array& mask, const Array& before, const Shape& shape, const Array& y) {
  const std::int64_t n = mask.numel(), chunks = before.numel() - 1;
  const int ndim = shape.ndim();
  const bool* m = static_cast<const bool*>(mask.raw());
  const auto* counts = static_cast<const std::int64_t*>(before.raw());
  auto* to = static_cast<std::int64_t*>(y.raw());
  cpu::parallel_for(chunks, n, [&](std::int64_t c) {
    std::int64_t* next = to + counts[c] * ndim;
    for (std::int64_t i = c * mask_chunk, end = std::min(n, i + mask_chunk); i < end; ++i) {
      if (!m[i]) continue;
      std::int64_t rest = i;
      for (int d = ndim - 1; d > 0; --d) {
        next[d] = rest % shape[d];
        rest /= shape[d];
      }
      if (ndim > 0) next[0] = rest;
      next += ndim;
    }
  });
}

}  // namespace tandem

#include <tandem/core/array/element_dispatch.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem {

void CpuBackend::copy(const Array& from, const Array& to) {
  if (from.dtype() != to.dtype()) return elementwise::convert<cpu::Loops>(from, to);
  dispatch_bits(to.dtype(),
                [&](auto bits) { cpu::Loops::transform<decltype(bits), decltype(bits)>(from, to, Keep{}); });
}

// Copies row by row, in the order of y's memory. The processor prefetches within a run of memory, but not across
// distant runs.
bool CpuBackend::cat(std::span<const Array> parts, int dim, const Array& y) {
  const auto all = [&](auto is_so) { return is_so(y) && std::ranges::all_of(parts, is_so); };
  if (!all([&](const Array& a) { return a.dtype() == y.dtype() && a.is_contiguous(); })) return false;
  std::int64_t rows = 1;
  for (int d = 0; d < dim; ++d) rows *= y.shape()[d];
  if (rows <= 1 || y.numel() == 0) return false;
  struct Run {
    const char* from;
    std::size_t bytes;  // bytes per row of this part
  };
  std::vector<Run> runs;
  for (const Array& part : parts)
    if (part.numel() > 0)
      runs.push_back({static_cast<const char*>(part.raw()), part.bytes() / static_cast<std::size_t>(rows)});
  const std::int64_t width = y.numel() / rows;
  const std::int64_t together = std::max<std::int64_t>(1, cpu::parallel_grain / 2 / width);
  cpu::parallel_for((rows + together - 1) / together, y.numel(), [&](std::int64_t task) {
    const std::int64_t first = task * together, last = std::min(rows, first + together);
    char* to = static_cast<char*>(y.raw()) + static_cast<std::size_t>(first * width) * size_of(y.dtype());
    for (std::int64_t row = first; row < last; ++row) {
      for (const Run& run : runs) {
        std::memcpy(to, run.from + static_cast<std::size_t>(row) * run.bytes, run.bytes);
        to += run.bytes;
      }
    }
  });
  return true;
}

void CpuBackend::fill(const Array& to, double value) { elementwise::fill<cpu::Loops>(to, value); }
void CpuBackend::where(const Array& condition, const Array& a, const Array& b, const Array& y) {
  elementwise::where<cpu::Loops>(condition, a, b, y);
}

}  // namespace tandem

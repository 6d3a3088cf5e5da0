#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/sgd_update.h>

#include <algorithm>

namespace tandem {

void CpuBackend::sgd_step(std::span<const SgdSegment> segments, const SgdOptions& options) {
  const SgdUpdate update(options);
  const std::int64_t piece = cpu::parallel_grain / 2;
  for (const SgdSegment& s : segments) {
    cpu::parallel_for((s.numel + piece - 1) / piece, s.numel, [&](std::int64_t p) {
      const std::int64_t end = std::min(s.numel, (p + 1) * piece);
      if (s.momentum) {
#pragma omp simd
        for (std::int64_t i = p * piece; i < end; ++i)
          update(s.parameter[i], s.gradient[i], s.momentum[i], s.momentum_is_fresh);
      } else {
#pragma omp simd
        for (std::int64_t i = p * piece; i < end; ++i) update(s.parameter[i], s.gradient[i]);
      }
    });
  }
}

}  // namespace tandem

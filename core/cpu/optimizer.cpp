#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>

namespace tandem {

// Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013, in PyTorch's form:
// the velocity is a sum of gradients and the learning rate multiplies it as it is applied.
void CpuBackend::sgd_step(std::span<const SgdSegment> segments, const SgdOptions& options) {
  const auto lr = static_cast<float>(options.lr), decay = static_cast<float>(options.weight_decay);
  const auto momentum = static_cast<float>(options.momentum),
             keep = static_cast<float>(1 - options.dampening);
  const bool nesterov = options.nesterov;
  const std::int64_t piece = cpu::parallel_grain / 2;
  for (const SgdSegment& s : segments) {
    cpu::parallel_for((s.numel + piece - 1) / piece, s.numel, [&](std::int64_t p) {
      const std::int64_t end = std::min(s.numel, (p + 1) * piece);
#pragma omp simd
      for (std::int64_t i = p * piece; i < end; ++i) {
        float update = s.gradient[i] + decay * s.parameter[i];
        if (s.momentum) {
          const float velocity = s.momentum_is_fresh ? update : momentum * s.momentum[i] + keep * update;
          s.momentum[i] = velocity;
          update = nesterov ? update + momentum * velocity : velocity;
        }
        s.parameter[i] -= lr * update;
      }
    });
  }
}

}  // namespace tandem

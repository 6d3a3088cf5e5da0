#include <tandem/core/cpu/cpu_backend.h>

namespace tandem {

// Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML 2013, in PyTorch's form:
// the velocity is a sum of gradients and the learning rate multiplies it as it is applied.
void CpuBackend::sgd_step(std::span<const SgdSegment> segments, const SgdOptions& options) {
  const auto lr = static_cast<float>(options.lr), decay = static_cast<float>(options.weight_decay);
  const auto momentum = static_cast<float>(options.momentum), keep = static_cast<float>(1 - options.dampening);
  const bool nesterov = options.nesterov;
  for (const SgdSegment& s : segments) {
#pragma omp parallel for simd if (s.numel >= parallel_grain)
    for (std::int64_t i = 0; i < s.numel; ++i) {
      float update = s.gradient[i] + decay * s.parameter[i];
      if (s.momentum) {
        const float velocity = s.momentum_is_fresh ? update : momentum * s.momentum[i] + keep * update;
        s.momentum[i] = velocity;
        update = nesterov ? update + momentum * velocity : velocity;
      }
      s.parameter[i] -= lr * update;
    }
  }
}

}  // namespace tandem

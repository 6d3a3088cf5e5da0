#include <tandem/core/device/math_mode.h>

#include <atomic>

namespace tandem {

namespace {

constexpr MathMode defaults;
std::atomic<bool> exact_convolutions{defaults.exact_convolutions}, tf32_matmul{defaults.tf32_matmul},
    tf32_conv{defaults.tf32_conv}, deterministic{defaults.deterministic};

}  // namespace

MathMode math_mode() { return {exact_convolutions, tf32_matmul, tf32_conv, deterministic}; }

void set_exact_convolutions(bool on) { exact_convolutions = on; }

void set_tf32(bool matmul, bool conv) {
  tf32_matmul = matmul;
  tf32_conv = conv;
}

void set_deterministic(bool on) { deterministic = on; }

}  // namespace tandem

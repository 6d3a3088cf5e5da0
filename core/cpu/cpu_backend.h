// The CPU back-end. It uses Eigen for small linear algebra, and its own loops for everything else. The compiler
// vectorises these loops, and OpenMP distributes them over threads. Annexes add faster products and convolutions. Every
// file in this folder implements one family of operations.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>

namespace tandem {

class CpuBackend final : public Backend {
 public:
#include <tandem/core/backend/backend_overrides.inc>

  // Defined in allocator.cpp. The device's memory is the host's.
  void upload(const void* host, void* data, std::size_t bytes) override;
  void download(const void* data, void* host, std::size_t bytes) override;
  void synchronize() override {}

  // Only the CPU implements this function. Defined in conv/conv2d.cpp.
  bool conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                    const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) override;
};

}  // namespace tandem

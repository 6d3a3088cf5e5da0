// The CPU: Eigen for small linear algebra, own loops for the rest, which the compiler vectorises and OpenMP's threads
// share. Annexes add faster products and convolutions. Every file here implements one family of operations.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>

namespace tandem {

class CpuBackend final : public Backend {
 public:
#include <tandem/core/backend/backend_overrides.inc>

  // allocator.cpp too: the device's memory is the host's.
  void upload(const void* host, void* data, std::size_t bytes) override;
  void download(const void* data, void* host, std::size_t bytes) override;
  void synchronize() override {}

  // Only the CPU has this. conv/conv2d.cpp
  bool conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                    const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) override;
};

}  // namespace tandem

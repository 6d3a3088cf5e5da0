// A GPU through CUDA: cuBLASLt for matrix products, cuDNN for convolutions, own kernels for the rest, from the same
// functors as on the CPU. Every file here implements the family of operations that the file of the same name in
// core/cpu/ does.
//
// Work runs later, in the order of the calls, in one stream per GPU; only download and synchronize wait for it. A
// kernel that finds its input invalid (a class that does not exist) says so then.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/backend/backend.h>

namespace tandem {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int index);

#include <tandem/core/backend/backend_overrides.inc>

  // cuda_backend.cpp
  void upload(const void* host, void* data, std::size_t bytes) override;
  void download(const void* data, void* host, std::size_t bytes) override;
  void synchronize() override;

  // conv2d.cpp
  bool conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                    const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) override;
  // matmul.cpp; only GPUs have this operation
  bool matmul_with_row_sums(const Array& a, const Array& b, const Array& y, const Array& row_sums) override;

 private:
  const int index_;
};

namespace cuda {
// Adds the kernels for recurrent layers (recurrent.cu).
void add_recurrent_kernel();
}  // namespace cuda

}  // namespace tandem

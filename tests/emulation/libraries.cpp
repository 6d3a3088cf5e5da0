// What cuBLAS and cuDNN do on a GPU, the CPU back-end does here: the emulated GPU's memory is the host's.
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cuda/cuda_backend.h>

namespace tandem {

void CudaBackend::matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  cpu_backend().matmul(a, b, bias, y);
}
void CudaBackend::conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                         const Array& y) {
  cpu_backend().conv2d(x, weight, bias, window, y);
}
void CudaBackend::conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                    const Array& grad_x) {
  cpu_backend().conv2d_grad_input(grad_y, weight, window, grad_x);
}
void CudaBackend::conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window,
                                     const Array& grad_weight, const std::optional<Array>& grad_bias) {
  cpu_backend().conv2d_grad_weight(x, grad_y, window, grad_weight, grad_bias);
}

}  // namespace tandem

#include <tandem/core/cuda/cublas.h>
#include <tandem/core/cuda/cuda_backend.h>
#include <tandem/core/cuda/layouts.h>

#include <algorithm>

namespace tandem {

namespace {

// The largest size of a kernel's grid in its last dimension.
constexpr std::int64_t most_in_a_batch = 65535;

}  // namespace

void CudaBackend::matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  if (y.ndim() == 3 && y.dim(0) > most_in_a_batch) {
    for (std::int64_t i = 0; i < y.dim(0); i += most_in_a_batch) {
      const std::int64_t end = std::min(i + most_in_a_batch, y.dim(0));
      matmul(a.slice(0, i, end), b.slice(0, i, end), bias, y.slice(0, i, end));
    }
    return;
  }
  const Array left = with_matrix_layout(a), right = with_matrix_layout(b);
  const Array row = bias ? cuda::packed(*bias, y.dtype()) : Array();
  const auto made = cuda::multiply(left, right, bias ? &row : nullptr, y);
  TANDEM_CHECK(made != cuda::Product::none, "matmul: cuBLASLt has no algorithm for ", left.dtype(), ' ', left.shape(),
               " x ", right.shape(), " with strides ", left.strides(), " and ", right.strides(), " that gives ",
               y.dtype(), "; compute in another dtype, or install another version of cuBLAS");
  if (made == cuda::Product::without_bias) zip(functors::Add{}, y, row.expand(y.shape()), y);
}

bool CudaBackend::matmul_with_row_sums(const Array& a, const Array& b, const Array& y, const Array& row_sums) {
  return cuda::alignment_of(row_sums.raw()) >= 16 &&
         cuda::multiply_with_row_sums(with_matrix_layout(a), with_matrix_layout(b), y, row_sums);
}

}  // namespace tandem

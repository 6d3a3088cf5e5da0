#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/onednn.h>

#include <Eigen/Core>

namespace tandem {

namespace {

template <class T>
using RowMajor =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;
template <class T>
using ColumnMajor =
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>, 0, Eigen::OuterStride<>>;

// Eigen multiplies fastest when it knows which dimension is dense: calls f with the map that fits.
template <class T, class F>
void with_matrix(const Array& a, F f) {
  T* data = static_cast<T*>(a.raw());
  if (a.strides()[1] == 1 || a.dim(1) == 1)
    f(RowMajor<T>(data, a.dim(0), a.dim(1), Eigen::OuterStride<>(a.strides()[0])));
  else if (a.strides()[0] == 1)
    f(ColumnMajor<T>(data, a.dim(0), a.dim(1), Eigen::OuterStride<>(a.strides()[1])));
  else with_matrix<T>(a.contiguous(), f);
}

template <class T>
void matmul_eigen(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  RowMajor<T> out(static_cast<T*>(y.raw()), y.dim(0), y.dim(1), Eigen::OuterStride<>(y.dim(1)));
  with_matrix<T>(a, [&](const auto& left) {
    with_matrix<T>(b, [&](const auto& right) { out.noalias() = left * right; });
  });
  if (bias) {
    const Array dense = bias->to(dtype_of<T>()).contiguous();
    out.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(dense.data<T>(), dense.numel());
  }
}

}  // namespace

void CpuBackend::matmul(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  switch (y.dtype()) {
    case DType::f32: return matmul_eigen<float>(a, b, bias, y);
    case DType::f64: return matmul_eigen<double>(a, b, bias, y);
    default: break;
  }
  if (y.dtype() == DType::bf16 && onednn::matmul(a, b, bias, y)) return;
  Array wide = Array::empty(y.shape());
  matmul_eigen<float>(a.to(DType::f32), b.to(DType::f32), bias, wide);
  copy(wide, y);
}

}  // namespace tandem

// Describes Arrays in the terms of cuBLAS and cuDNN. This file needs neither of them.
#pragma once

#include <tandem/core/array/matrix_layout.h>

#include <bit>

namespace tandem::cuda {

// A matrix in memory as cuBLAS reads it: the `rows` numbers of a column are neighbours, and the next column begins
// `leading` elements further on. The matrix may be transposed after that.
struct ColumnMajor {
  std::int64_t rows, columns, leading;
  bool transposed;
  bool operator==(const ColumnMajor&) const = default;
};

// The transpose of the matrix m, or of each matrix of a batch. cuBLAS reads a row-major m as this transpose, so y = a b
// is computed as y' = b' a'. Returns nullopt if cuBLAS needs a copy.
inline std::optional<ColumnMajor> transpose_of(const Array& m) {
  const auto layout = matrix_layout(m);
  if (!layout) return std::nullopt;
  const std::int64_t rows = m.dim(-2), columns = m.dim(-1);
  return layout->transposed ? ColumnMajor{rows, columns, layout->leading, true}
                            : ColumnMajor{columns, rows, layout->leading, false};
}

// The largest power of two up to 256 that divides the address.
inline std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256u;
  return 1u << std::countr_zero(address);
}

// Returns `a` in the form that the libraries require of a bias: row-major, in `dtype`, aligned to 16 bytes. That is `a`
// itself or a copy.
inline Array packed(const Array& a, DType dtype) {
  if (a.dtype() == dtype && a.is_contiguous() && alignment_of(a.raw()) >= 16) return a;
  Array copy = Array::empty(a.shape(), dtype, a.device());
  copy.copy_from(a);
  return copy;
}

// The memory order of an image (N, C, H, W) or of a filter (O, C, KH, KW).
enum class ImageFormat { nhwc, nchw };

inline Strides dense_strides(ImageFormat format, const Shape& shape) {
  return format == ImageFormat::nhwc ? channels_last_strides(shape) : contiguous_strides(shape);
}
inline bool is_dense(ImageFormat format, const Array& a) {
  return format == ImageFormat::nhwc ? a.is_channels_last() : a.is_contiguous();
}
inline Array empty_in(ImageFormat format, const Shape& shape, DType dtype, Device device) {
  return format == ImageFormat::nhwc ? Array::empty_channels_last(shape, dtype, device)
                                     : Array::empty(shape, dtype, device);
}

}  // namespace tandem::cuda

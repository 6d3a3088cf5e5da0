#include <tandem/core/base/dtype.h>
#include <tandem/core/base/shape.h>

#include <algorithm>

namespace tandem {

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '(';
  for (int i = 0; i < dims.ndim(); ++i) out << (i ? ", " : "") << dims[i];
  return out << ')';
}

void Dims::fail_too_large() const { detail::fail("the product of the sizes ", *this, " does not fit in 64 bits"); }

void Dims::fail_no_entry(int i) const { detail::fail("there is no entry ", i, " in ", *this, ", of length ", ndim_); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.ndim(), 1);
  // If one size is 0, the others may be so large that their product wraps around. That is harmless, because nothing
  // uses the strides of an empty array.
  for (int i = shape.ndim() - 2; i >= 0; --i) __builtin_mul_overflow(strides[i + 1], shape[i + 1], &strides[i]);
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  TANDEM_CHECK(shape.ndim() == 4, "channels last needs shape (N, C, H, W), got ", shape);
  const Strides strides = contiguous_strides({shape[0], shape[2], shape[3], shape[1]});
  return {strides[0], strides[3], strides[1], strides[2]};
}

Shape broadcast_shape(const Shape& a, const Shape& b, const char* operation) {
  Shape result = Dims::filled(std::max(a.ndim(), b.ndim()), 1);
  for (int i = 1; i <= result.ndim(); ++i) {
    const std::int64_t x = i <= a.ndim() ? a[a.ndim() - i] : 1;
    const std::int64_t y = i <= b.ndim() ? b[b.ndim() - i] : 1;
    TANDEM_CHECK(x == y || x == 1 || y == 1, operation, ": shapes ", a, " and ", b,
                 " do not broadcast: from the last dimension on, sizes must be equal or 1");
    result[result.ndim() - i] = x == 1 ? y : x;
  }
  return result;
}

int normalize_dim(std::int64_t dim, int ndim) {
  TANDEM_CHECK(ndim > 0, "dimension ", dim, " is out of range: a scalar has no dimensions");
  TANDEM_CHECK(-ndim <= dim && dim < ndim, "dimension ", dim, " is out of range for an array of ", ndim,
               " dimensions; it must be from ", -ndim, " to ", ndim - 1);
  return static_cast<int>(dim < 0 ? dim + ndim : dim);
}

unsigned mask_of(const Dims& dims, int ndim, const char* operation) {
  unsigned mask = 0;
  for (const auto dim : dims) {
    const int d = normalize_dim(dim, ndim);
    TANDEM_CHECK(!(mask >> d & 1u), operation, ": dimension ", d, " occurs twice in ", dims);
    mask |= 1u << d;
  }
  return mask;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
  constexpr DType by_width[] = {DType::i64, DType::i32, DType::u8, DType::boolean};
  return *std::find_if(std::begin(by_width), std::end(by_width), [&](DType d) { return d == a || d == b; });
}

}  // namespace tandem

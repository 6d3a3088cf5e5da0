#include <tandem/core/ops_create.h>

namespace tandem::ops {

Array full(const Shape& shape, double value, DType dtype, Device device) {
  Array result = Array::empty(shape, dtype, device);
  result.fill(value);
  return result;
}
Array zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
Array ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }
Array scalar(double value, DType dtype, Device device) { return full({}, value, dtype, device); }

Array empty_like(const Array& like, DType dtype) {
  // A dense channels-last input begets a channels-last output; a shape that is both counts as row-major.
  if (like.is_channels_last() && !like.is_contiguous())
    return Array::empty_channels_last(like.shape(), dtype, like.device());
  return Array::empty(like.shape(), dtype, like.device());
}
Array empty_like(const Array& like) { return empty_like(like, like.dtype()); }

}  // namespace tandem::ops

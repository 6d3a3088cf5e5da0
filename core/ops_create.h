// New Arrays. Row-major; on the CPU unless told otherwise.
#pragma once

#include <tandem/core/array.h>

namespace tandem::ops {

Array full(const Shape& shape, double value, DType dtype = DType::f32, Device device = {});
Array zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
Array scalar(double value, DType dtype = DType::f32, Device device = {});  // shape ()
// The layout (channels last or row-major) and device of `like`.
Array empty_like(const Array& like);
Array empty_like(const Array& like, DType dtype);

}  // namespace tandem::ops

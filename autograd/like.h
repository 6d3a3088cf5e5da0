// Creates new Arrays like a Tensor: with its shape and layout, on its device, and with its dtype unless another is
// given. The Arrays have no history. core/ops/create.h has the same functions for Arrays.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/core/ops/create.h>

namespace tandem {

inline Array empty_like(const Tensor& like) { return ops::empty_like(like.value()); }
inline Array empty_like(const Tensor& like, DType dtype) { return ops::empty_like(like.value(), dtype); }
inline Array full_like(const Tensor& like, Number value, std::optional<DType> dtype = {}) {
  return ops::full_like(like.value(), value, dtype);
}
inline Array zeros_like(const Tensor& like, std::optional<DType> dtype = {}) {
  return ops::zeros_like(like.value(), dtype);
}
inline Array ones_like(const Tensor& like, std::optional<DType> dtype = {}) {
  return ops::ones_like(like.value(), dtype);
}
inline Array rand_like(const Tensor& like, std::optional<DType> dtype = {},
                       Generator& generator = default_generator()) {
  return ops::rand_like(like.value(), dtype, generator);
}
inline Array randn_like(const Tensor& like, std::optional<DType> dtype = {},
                        Generator& generator = default_generator()) {
  return ops::randn_like(like.value(), dtype, generator);
}

}  // namespace tandem

// Autocast: mixed precision. While an Autocast lives, the operations that benefit from 16 bits compute in a 16-bit
// dtype.
// The operations, as in PyTorch's table:
//   convolutions, linear, matmul and einsum                      compute in the lower type
//   scaled_dot_product_attention                                 computes in the lower type, its softmax in f32
//   cross_entropy and all other losses                           compute in f32
//   softmax, log_softmax, layer_norm, group_norm                 compute in f32
//   exp, log, log1p, pow, reciprocal, rsqrt, softplus            compute in f32
//   sum, prod, cumsum, norm, logsumexp                           compute in f32
//   everything else                                              computes in the dtype of its inputs
// An operation whose inputs have several dtypes computes in the widest of them. Parameters stay f32 as master weights:
// an operation converts parameters as it reads them, and their gradients are f32.
#pragma once

#include <tandem/autograd/low_weights.h>
#include <tandem/core/base/temporarily.h>

#include <optional>

namespace tandem {

class Autocast {
 public:
  [[nodiscard]] explicit Autocast(DType dtype);  // bf16 or f16; f32 turns Autocast off, so a program needs no branch

 private:
  Temporarily<std::optional<DType>> dtype_;
  autograd::LowWeightScope low_weights_;
};

// The dtype of the innermost Autocast on this thread, or f32 without one.
DType autocast_dtype();

// Casts x to the dtype in which an operation computes under this thread's Autocast. autocast_low() is for the
// operations that compute in the lower dtype, and autocast_f32() for those that compute in f32.
Tensor autocast_low(const Tensor& x);
Tensor autocast_f32(const Tensor& x);

// Throws an Error that names `operation` if x and weight differ in dtype. Under an Autocast they may differ, because
// parameters stay f32.
void check_dtypes(const char* operation, const Tensor& x, const Tensor& weight);

}  // namespace tandem

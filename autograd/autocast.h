// Autocast: mixed precision. While an Autocast lives, the operations that gain from 16 bits compute in a 16-bit dtype.
// The operations, as in PyTorch's table:
//   convolutions, linear, matmul and einsum                      compute in the lower type
//   scaled_dot_product_attention                                 computes in the lower type, its softmax in f32
//   cross_entropy and all other losses                           compute in f32
//   softmax, log_softmax, layer_norm, group_norm                 compute in f32
//   exp, log, log1p, pow, reciprocal, rsqrt, softplus            compute in f32
//   sum, prod, cumsum, norm, logsumexp                           compute in f32
//   everything else                                              computes in the dtype of its inputs
// An operation on inputs of several dtypes computes in the widest of them. Parameters stay f32. They are the master
// weights: an operation converts the parameters as it reads them, and their gradients are f32.
#pragma once

#include <tandem/autograd/low_weights.h>
#include <tandem/core/base/temporarily.h>

#include <optional>

namespace tandem {

class Autocast {
 public:
  [[nodiscard]] explicit Autocast(DType dtype);  // bf16 or f16; f32 changes nothing, so that a program needs no branch

 private:
  Temporarily<std::optional<DType>> dtype_;
  autograd::LowWeightScope low_weights_;
};

// The dtype of the innermost Autocast on this thread, or f32 without one.
DType autocast_dtype();

// x in the dtype that an operation computes in under the Autocast of this thread. autocast_low() is for the operations
// that compute in the lower dtype, autocast_f32() for those that compute in f32.
Tensor autocast_low(const Tensor& x);
Tensor autocast_f32(const Tensor& x);

// Error of `operation` when x and weight differ in dtype. Under an Autocast they may, because parameters stay f32.
void check_dtypes(const char* operation, const Tensor& x, const Tensor& weight);

}  // namespace tandem

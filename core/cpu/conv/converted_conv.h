// A layer of 16-bit numbers, computed in f32 by the fastest method for f32.
#pragma once

#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

// Returns the dtype of the kernels that compute a layer: f32 for f16, for which oneDNN has no kernels, and for bf16 if
// f32 is faster. Methods that read 16-bit images directly need no conversion, but use these kernels to judge whether
// they pay.
DType kernel_dtype(const ConvLayer& layer);

class ConvertedConv final : public ConvMethod {
 public:
  explicit ConvertedConv(const ConvLayer& layer);
  std::string name() const override { return in_f32_->name(); }
  bool pays() const override { return in_f32_ != nullptr; }
  void run(const ConvArrays& arrays) override;

 private:
  std::unique_ptr<ConvMethod> in_f32_;
};

}  // namespace tandem::cpu

#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/converted_conv.h>
#include <tandem/core/cpu/conv/onednn_conv.h>
#include <tandem/core/cpu/conv/tap_conv.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/onednn_faults.h>
#include <tandem/core/device/math_mode.h>

namespace tandem::cpu {

// Arrays are converted if each number is multiplied often enough (tried on an Intel Xeon without AMX).
DType kernel_dtype(const ConvLayer& layer) {
  if (layer.dtype == DType::f16) return DType::f32;
  if (layer.dtype != DType::bf16) return layer.dtype;
  const auto& [kernel, stride, padding, dilation, groups] = layer.window;
  // If the number of bf16 inputs is odd, oneDNN multiplies numbers of the next pixel by zero, which spreads an Inf.
  if (math_mode().exact_convolutions && layer.x[1] / groups % 2 != 0 && onednn::has(onednn::Fault::odd_inputs_bf16))
    return DType::f32;
  if (onednn::has_fast_bf16()) return DType::bf16;
  constexpr std::int64_t enough = 18;
  const std::int64_t taps = kernel.h * kernel.w;
  const bool is_enough =
      layer.x[1] / groups * taps >= enough && layer.y[1] / groups * taps >= enough * stride.h * stride.w;
  return is_enough || !onednn::has_avx512() ? DType::f32 : DType::bf16;
}

ConvertedConv::ConvertedConv(const ConvLayer& layer) : ConvMethod(layer) {
  const auto sums_are_wrong = [&] {
    return layer.pass == ConvPass::weight_gradient && layer.dtype == DType::bf16 && !TapConv(layer).beats_onednn() &&
           !onednn_sums_bf16_correctly(layer);
  };
  if (layer.pass == ConvPass::both_gradients || layer.dtype == DType::f32) return;
  if (kernel_dtype(layer) != layer.dtype || sums_are_wrong()) in_f32_ = choose_conv_method(layer.in(DType::f32)).method;
}

void ConvertedConv::run(const ConvArrays& arrays) {
  const ConvArrays in_f32 = in_dtype(DType::f32, layer_.pass, arrays);
  in_f32_->run(in_f32);
  copy_results(layer_.pass, in_f32, arrays);
}

}  // namespace tandem::cpu

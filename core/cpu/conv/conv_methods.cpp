// The methods of this build, in the order in which they are tried. A build with plain_conv.h alone computes everything,
// only slower.
#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/cpu/conv/converted_conv.h>
#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/cpu/conv/depthwise_conv.h>
#include <tandem/core/cpu/conv/direct_conv.h>
#include <tandem/core/cpu/conv/one_channel_conv.h>
#include <tandem/core/cpu/conv/onednn_conv.h>
#include <tandem/core/cpu/conv/plain_conv.h>
#include <tandem/core/cpu/conv/tap_conv.h>

namespace tandem::cpu {

namespace {

template <class Method>
std::unique_ptr<ConvMethod> make(const ConvLayer& layer) {
  return std::make_unique<Method>(layer);
}

}  // namespace

std::span<const MakeConvMethod> conv_methods() {
  static constexpr MakeConvMethod methods[] = {
      // These read and write 16-bit images themselves.
      make<CookToomConv>,
      make<OneChannelConv>,
      make<DepthwiseConv>,
      // The methods below see a layer in f32 where that is faster than 16 bits.
      make<ConvertedConv>,
      make<DirectConv>,
      make_onednn_conv,
      make<TapConv>,
      make<PlainConv>,
  };
  return methods;
}

}  // namespace tandem::cpu

// The methods that are tried before PlainConv, in this order.
#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/cpu/conv/converted_conv.h>
#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/cpu/conv/depthwise_conv.h>
#include <tandem/core/cpu/conv/direct_conv.h>
#include <tandem/core/cpu/conv/one_channel_conv.h>
#include <tandem/core/cpu/conv/onednn_conv.h>
#include <tandem/core/cpu/conv/tap_conv.h>

namespace tandem {

void add_fast_conv_methods() {
  using namespace cpu;
  // These methods read and write 16-bit images directly.
  fast_conv_methods.add({"CookToomConv", make_conv_method<CookToomConv>});
  fast_conv_methods.add({"OneChannelConv", make_conv_method<OneChannelConv>});
  fast_conv_methods.add({"DepthwiseConv", make_conv_method<DepthwiseConv>});
  // The methods below compute a layer in f32 if that is faster than 16 bits.
  fast_conv_methods.add({"ConvertedConv", make_conv_method<ConvertedConv>});
  fast_conv_methods.add({"DirectConv", make_conv_method<DirectConv>});
  fast_conv_methods.add({"OneDnnConv", make_onednn_conv});
  fast_conv_methods.add({"TapConv", make_conv_method<TapConv>});
}

}  // namespace tandem

#include <tandem/nn/conv.h>
#include <tandem/nn/init.h>

#include <cmath>

namespace tandem::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options)
    : window_{options.kernel_size, options.stride, options.padding, options.dilation} {
  TANDEM_CHECK(in_channels > 0 && out_channels > 0, "Conv2d: channels must be positive, got ", in_channels,
               " and ", out_channels);
  const Shape shape{out_channels, in_channels, options.kernel_size.h, options.kernel_size.w};
  weight = add_parameter("weight", init::kaiming_uniform(shape));
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(shape)));
  if (options.bias) bias = add_parameter("bias", init::uniform({out_channels}, bound));
}

std::string Conv2d::describe() const {
  std::ostringstream out;
  out << class_name() << '(' << weight.dim(1) << ", " << weight.dim(0) << ", kernel " << window_.kernel;
  if (window_.stride != Extent(1)) out << ", stride " << window_.stride;
  if (window_.padding != Extent(0)) out << ", padding " << window_.padding;
  if (window_.dilation != Extent(1)) out << ", dilation " << window_.dilation;
  out << (bias.defined() ? ")" : ", without bias)");
  return out.str();
}

}  // namespace tandem::nn

#include <tandem/nn/conv.h>
#include <tandem/nn/init.h>

#include <cmath>
#include <sstream>
#include <string_view>
#include <type_traits>

namespace tandem::nn {

namespace {

template <class Options>
constexpr bool is_transposed = std::is_same_v<Options, ConvTransposeOptions>;

void check_sizes(const char* module, std::int64_t in, std::int64_t out, std::int64_t groups, Extent kernel) {
  TANDEM_CHECK(in > 0 && out > 0, module, ": channels must be positive, got ", in, " and ", out);
  TANDEM_CHECK(groups > 0 && in % groups == 0 && out % groups == 0, module, ": ", groups, " groups must divide the ",
               in, " input channels and the ", out, " output channels");
  TANDEM_CHECK(kernel.h > 0 && kernel.w > 0, module, ": kernel_size must be positive, got ", kernel);
}

Extent extent_of(const Shape& kernel) {
  return kernel.ndim() == 2 ? Extent(kernel[0], kernel[1]) : Extent(1, kernel[0]);
}

}  // namespace

Padding::Padding(const char* name) : same_(std::string_view(name) == "same") {
  TANDEM_CHECK(same_ || std::string_view(name) == "valid", "padding must be a number, \"same\" or \"valid\", got \"",
               name, '"');
}

Extent Padding::of(Extent kernel, Extent stride, Extent dilation) const {
  if (!same_) return extent_;
  TANDEM_CHECK(stride == Extent(1), "padding \"same\" needs stride 1, got ", stride);
  const Extent total{dilation.h * (kernel.h - 1), dilation.w * (kernel.w - 1)};
  TANDEM_CHECK(total.h % 2 == 0 && total.w % 2 == 0, "padding \"same\" for kernel ", kernel, " with dilation ",
               dilation, " would differ between the two sides; use an odd kernel");
  return {total.h / 2, total.w / 2};
}

template <class Options>
Convolution<Options>::Convolution(const char* name, std::int64_t in_channels, std::int64_t out_channels,
                                  const Shape& kernel, bool with_bias, const Options& options)
    : options_(options) {
  check_sizes(name, in_channels, out_channels, options.groups, extent_of(kernel));
  Shape shape = is_transposed<Options> ? Shape{in_channels, out_channels / options.groups}
                                       : Shape{out_channels, in_channels / options.groups};
  for (const std::int64_t size : kernel) shape.push_back(size);
  // The weight is drawn before the bias. Both are within 1 / sqrt(fan_in). The fan_in comes from the weight's shape,
  // for a transposed convolution too.
  weight = add_parameter("weight", init::kaiming_uniform(shape));
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(shape)));
  if (with_bias) bias = add_parameter("bias", init::uniform({out_channels}, bound));
}

// For example "Conv2d(3, 16, kernel 5x5, padding 2x2)".
template <class Options>
std::string Convolution<Options>::describe() const {
  const auto& o = options_;
  const std::int64_t first = weight.dim(0), second = weight.dim(1) * o.groups;
  const Extent kernel{weight.shape().ndim() == 4 ? weight.dim(2) : 1, weight.dim(-1)};
  std::ostringstream text;
  text << class_name() << '(' << (is_transposed<Options> ? first : second) << ", "
       << (is_transposed<Options> ? second : first) << ", kernel " << kernel;
  if (o.stride != Extent(1)) text << ", stride " << o.stride;
  if (o.padding != Extent(0)) text << ", padding " << o.padding;
  if (o.dilation != Extent(1)) text << ", dilation " << o.dilation;
  if (o.groups != 1) text << ", groups " << o.groups;
  text << (bias.defined() ? ")" : ", without bias)");
  return text.str();
}

template class Convolution<ConvOptions>;
template class Convolution<ConvTransposeOptions>;

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent kernel_size, const Conv2dOptions& o)
    : Convolution("Conv2d", in_channels, out_channels, {kernel_size.h, kernel_size.w}, o.bias,
                  {o.stride, o.padding.of(kernel_size, o.stride, o.dilation), o.dilation, o.groups}) {}

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size, const Conv1dOptions& o)
    : Convolution("Conv1d", in_channels, out_channels, {kernel_size}, o.bias,
                  {o.stride, o.padding.of(kernel_size, o.stride, o.dilation), o.dilation, o.groups}) {}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Extent kernel_size,
                                 const ConvTranspose2dOptions& o)
    : Convolution("ConvTranspose2d", in_channels, out_channels, {kernel_size.h, kernel_size.w}, o.bias,
                  {o.stride, o.padding, o.output_padding, o.groups, o.dilation}) {}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                                 const ConvTranspose1dOptions& o)
    : Convolution("ConvTranspose1d", in_channels, out_channels, {kernel_size}, o.bias,
                  {o.stride, o.padding, o.output_padding, o.groups, o.dilation}) {}

}  // namespace tandem::nn

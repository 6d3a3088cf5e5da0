#include <tandem/nn/conv.h>
#include <tandem/nn/init.h>

#include <cmath>
#include <sstream>
#include <string_view>

namespace tandem::nn {

namespace {

void check_sizes(const char* module, std::int64_t in, std::int64_t out, std::int64_t groups, Extent kernel) {
  TANDEM_CHECK(in > 0 && out > 0, module, ": channels must be positive, got ", in, " and ", out);
  TANDEM_CHECK(groups > 0 && in % groups == 0 && out % groups == 0, module, ": ", groups, " groups must divide the ",
               in, " channels in and the ", out, " channels out");
  TANDEM_CHECK(kernel.h > 0 && kernel.w > 0, module, ": kernel_size must be positive, got ", kernel);
}

// The weight's draw, then the bias's: both within 1 / sqrt(fan_in), where fan_in is read off the weight's shape, for
// transposed convolutions too.
struct Initial {
  Array weight, bias;
};
Initial draw(const Shape& weight, std::int64_t out_channels, bool with_bias) {
  Initial initial{init::kaiming_uniform(weight), {}};
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  if (with_bias) initial.bias = init::uniform({out_channels}, bound);
  return initial;
}

// "Conv2d(3, 16, kernel 5x5, padding 2x2)"
template <class Options>
std::string describe_window(const Module& module, std::int64_t in, std::int64_t out, Extent kernel,
                            const Options& options, bool bias) {
  std::ostringstream text;
  text << module.class_name() << '(' << in << ", " << out << ", kernel " << kernel;
  if (options.stride != Extent(1)) text << ", stride " << options.stride;
  if (options.padding != Extent(0)) text << ", padding " << options.padding;
  if (options.dilation != Extent(1)) text << ", dilation " << options.dilation;
  if (options.groups != 1) text << ", groups " << options.groups;
  text << (bias ? ")" : ", without bias)");
  return text.str();
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
               dilation, " would not be the same on both sides; use an odd kernel");
  return {total.h / 2, total.w / 2};
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& o)
    : options_{o.stride, o.padding.of(o.kernel_size, o.stride, o.dilation), o.dilation, o.groups} {
  check_sizes("Conv2d", in_channels, out_channels, o.groups, o.kernel_size);
  const auto initial =
      draw({out_channels, in_channels / o.groups, o.kernel_size.h, o.kernel_size.w}, out_channels, o.bias);
  weight = add_parameter("weight", initial.weight);
  if (o.bias) bias = add_parameter("bias", initial.bias);
}

std::string Conv2d::describe() const {
  return describe_window(*this, weight.dim(1) * options_.groups, weight.dim(0), {weight.dim(2), weight.dim(3)},
                         options_, bias.defined());
}

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv1dOptions& o)
    : options_{o.stride, o.padding.of(o.kernel_size, o.stride, o.dilation), o.dilation, o.groups} {
  check_sizes("Conv1d", in_channels, out_channels, o.groups, o.kernel_size);
  const auto initial = draw({out_channels, in_channels / o.groups, o.kernel_size}, out_channels, o.bias);
  weight = add_parameter("weight", initial.weight);
  if (o.bias) bias = add_parameter("bias", initial.bias);
}

std::string Conv1d::describe() const {
  return describe_window(*this, weight.dim(1) * options_.groups, weight.dim(0), {1, weight.dim(2)}, options_,
                         bias.defined());
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose2dOptions& o)
    : options_{o.stride, o.padding, o.output_padding, o.groups, o.dilation} {
  check_sizes("ConvTranspose2d", in_channels, out_channels, o.groups, o.kernel_size);
  const auto initial =
      draw({in_channels, out_channels / o.groups, o.kernel_size.h, o.kernel_size.w}, out_channels, o.bias);
  weight = add_parameter("weight", initial.weight);
  if (o.bias) bias = add_parameter("bias", initial.bias);
}

std::string ConvTranspose2d::describe() const {
  return describe_window(*this, weight.dim(0), weight.dim(1) * options_.groups, {weight.dim(2), weight.dim(3)},
                         options_, bias.defined());
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, const ConvTranspose1dOptions& o)
    : options_{o.stride, o.padding, o.output_padding, o.groups, o.dilation} {
  check_sizes("ConvTranspose1d", in_channels, out_channels, o.groups, o.kernel_size);
  const auto initial = draw({in_channels, out_channels / o.groups, o.kernel_size}, out_channels, o.bias);
  weight = add_parameter("weight", initial.weight);
  if (o.bias) bias = add_parameter("bias", initial.bias);
}

std::string ConvTranspose1d::describe() const {
  return describe_window(*this, weight.dim(0), weight.dim(1) * options_.groups, {1, weight.dim(2)}, options_,
                         bias.defined());
}

}  // namespace tandem::nn

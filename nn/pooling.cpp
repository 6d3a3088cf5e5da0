#include <tandem/nn/pooling.h>

#include <sstream>

namespace tandem::nn {

namespace {

// "MaxPool2d(kernel 2x2, stride 2x2)"
template <class Options>
std::string describe_window(const Module& module, const Options& options) {
  std::ostringstream text;
  text << module.class_name() << "(kernel " << options.kernel_size << ", stride "
       << options.stride.value_or(options.kernel_size);
  if (options.padding != Extent(0)) text << ", padding " << options.padding;
  text << ')';
  return text.str();
}

}  // namespace

std::string MaxPool2d::describe() const { return describe_window(*this, options); }
std::string MaxPool1d::describe() const { return describe_window(*this, options); }
std::string AvgPool2d::describe() const { return describe_window(*this, options); }
std::string AvgPool1d::describe() const { return describe_window(*this, options); }

}  // namespace tandem::nn

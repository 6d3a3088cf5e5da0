#include <tandem/nn/batch_norm.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>

namespace tandem::nn {

Sequential::Sequential(std::initializer_list<Step> steps) {
  int i = 0;
  for (const Step& step : steps) add_child(std::to_string(i++), step.module);
}

Tensor Sequential::forward(const Tensor& input) {
  const auto& steps = children();
  const auto at = [&](std::size_t i) { return i < steps.size() ? steps[i].second.get() : nullptr; };
  Tensor x = input;
  for (std::size_t i = 0; i < steps.size();) {
    auto* norm = dynamic_cast<BatchNorm2d*>(at(i));
    if (norm && dynamic_cast<ReLU*>(at(i + 1))) {
      const auto* pool = dynamic_cast<MaxPool2d*>(at(i + 2));
      const bool pools_2x2 = pool && pool->options.kernel_size == Extent(2) &&
                             pool->options.stride == Extent(2) && pool->options.padding == Extent(0) &&
                             pool->options.dilation == Extent(1) && !pool->options.ceil_mode;
      x = norm->forward(x, {.relu = true, .max_pool_2x2 = pools_2x2});
      i += pools_2x2 ? 3 : 2;
    } else {
      x = (*at(i++))(x);
    }
  }
  return x;
}

}  // namespace tandem::nn

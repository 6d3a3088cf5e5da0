#include <tandem/nn/batch_norm.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/pooling.h>
#include <tandem/nn/sequential.h>

#include <typeinfo>

namespace tandem::nn {

namespace {

// Returns `module` as an M if its class is exactly M, otherwise null. The forward() of a derived class may differ.
template <class M>
const M* exactly(const Module* module) {
  return module && typeid(*module) == typeid(M) ? static_cast<const M*>(module) : nullptr;
}

// Returns whether max pooling gives the same result before and after ReLU. A window that contains only padding has the
// maximum -infinity, which ReLU turns into 0. Without dilation and ceil_mode there is no such window.
bool commute(const ReLU* relu, const MaxPool2d* pool) {
  return relu && pool && !relu->is_inplace() && pool->options().dilation == Extent(1) && !pool->options().ceil_mode;
}

}  // namespace

Sequential::Sequential(std::initializer_list<Step> steps) {
  for (const Step& step : steps) push_child(step.module);
}

Tensor Sequential::run(const Tensor& input, std::int64_t begin, std::int64_t end) {
  TANDEM_CHECK(0 <= begin && begin <= end && end <= size(), "Sequential: there are no modules ", begin, " to ", end,
               ", its size is ", size());
  const auto& steps = children();
  // Returns the module at position i if calling it would do nothing except forward(); otherwise null.
  const auto plain = [&](std::int64_t i) {
    Module* const module = i < end ? steps[static_cast<std::size_t>(i)].second.get() : nullptr;
    return module && !module->has_forward_hooks() ? module : nullptr;
  };
  Tensor x = input;
  for (std::int64_t i = begin; i < end;) {
    auto* norm = dynamic_cast<BatchNorm2d*>(plain(i));
    if (norm && exactly<ReLU>(plain(i + 1))) {
      const auto* pool = exactly<MaxPool2d>(plain(i + 2));
      const bool pools_2x2 = pool && pool->kernel_size() == Extent(2) && pool->stride() == Extent(2) &&
                             pool->options().padding == Extent(0) && pool->options().dilation == Extent(1) &&
                             !pool->options().ceil_mode;
      x = norm->forward(x, {.relu = true, .max_pool_2x2 = pools_2x2});
      i += pools_2x2 ? 3 : 2;
    } else if (commute(exactly<ReLU>(plain(i)), exactly<MaxPool2d>(plain(i + 1)))) {
      x = (*plain(i))((*plain(i + 1))(x));  // ReLU then processes fewer numbers
      i += 2;
    } else {
      x = (*steps[static_cast<std::size_t>(i++)].second)(x);
    }
  }
  return x;
}

}  // namespace tandem::nn

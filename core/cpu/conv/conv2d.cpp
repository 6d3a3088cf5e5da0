// The convolutions of CpuBackend: the first method of the list that pays computes a pass. Each thread makes the choice
// once for each layer and batch size, and keeps it.
#include <tandem/core/base/scope.h>
#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/device/plan_cache.h>

#include <omp.h>

namespace tandem {

namespace {

using cpu::ConvArrays, cpu::ConvLayer, cpu::ConvPass;

// Everything that a choice depends on. A kernel of oneDNN is made for a number of threads.
CallKey key_of(const ConvLayer& layer) {
  const MathMode mode = math_mode();
  CallKey key(omp_get_max_threads(), mode.exact_convolutions, mode.deterministic, layer.pass, layer.window, layer.x,
              layer.y, layer.dtype, layer.y_dtype, layer.weight_dtype, layer.add);
  if (layer.bias_dtype) key.add(*layer.bias_dtype);
  return key;
}

// Returns false, and does nothing, if no method of the list computes this pass.
bool convolve(ConvPass pass, const Window& window, const ConvArrays& arrays, bool add = false) {
  thread_local PlanCache<cpu::ConvChoice, 1024> choices;
  const ConvLayer layer(pass, window, arrays, add);
  const auto& [method, note] =
      choices.get(key_of(layer), [&] { return std::make_unique<cpu::ConvChoice>(cpu::choose_conv_method(layer)); });
  if (!method) return false;
  if (Scope* const scope = Scope::innermost(); scope && scope->takes_notes()) {
    const bool both = pass == ConvPass::both_gradients;
    if (pass == ConvPass::outputs) scope->note("kernel", note);
    if (both || pass == ConvPass::input_gradient) scope->note("kernel of the input's gradient", note);
    if (both || pass == ConvPass::weight_gradient) scope->note("kernel of the weight's gradient", note);
  }
  method->run(arrays);
  return true;
}

}  // namespace

void CpuBackend::conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                        const Array& y) {
  convolve(ConvPass::outputs, window, {.x = x, .weight = weight, .bias = bias, .y = y});
}

void CpuBackend::conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                   const Array& grad_x) {
  convolve(ConvPass::input_gradient, window, {.weight = weight, .y = grad_y, .grad_x = grad_x});
}

void CpuBackend::conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                                    const std::optional<Array>& grad_bias) {
  convolve(ConvPass::weight_gradient, window,
           {.x = x, .y = grad_y, .grad_weight = grad_weight, .grad_bias = grad_bias});
}

bool CpuBackend::conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                              const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) {
  return convolve(
      ConvPass::both_gradients, window,
      {.x = x, .weight = weight, .y = grad_y, .grad_x = grad_x, .grad_weight = grad_weight, .grad_bias = grad_bias},
      add);
}

}  // namespace tandem

#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/cpu/conv/cook_toom_orders.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops/create.h>

namespace tandem::cpu {

namespace {

Extent size_of_image(const Shape& image) { return {image[2], image[3]}; }

Kernels kernels_of(const Array& weight, bool turned) { return {weight.to(DType::f32).contiguous(), turned}; }

// Calls f(sums) with memory for the gradient of a weight, f32 and row-major, which then goes to grad_weight.
template <class F>
void sum_weight(const Array& grad_weight, F f) {
  const bool fits = grad_weight.dtype() == DType::f32 && grad_weight.is_contiguous();
  const Array sums = fits ? grad_weight : Array::empty(grad_weight.shape());
  f(sums);
  if (!fits) backend({}).copy(sums, grad_weight);
}

CookToomChoice choose(const Window& window, Extent size, std::int64_t inputs, std::int64_t outputs, double share,
                      DType dtype) {
  CookToomChoice best = choose_cook_toom(window.kernel, window.dilation, size, inputs, outputs);
  best.direct_cycles = direct_cycles(window.kernel, size, inputs, outputs, share, dtype);
  return best;
}

}  // namespace

bool CookToomConv::can(DType dtype) const {
  return dtype != DType::f64 && window_.stride == Extent(1) && window_.groups == 1 && has_tiles(window_.kernel) &&
         !math_mode().exact_convolutions;
}

CookToomChoice CookToomConv::choose_forward(DType dtype, double share) const {
  return choose(window_, size_of_image(y_), x_[1], y_[1], share, dtype);
}
CookToomChoice CookToomConv::choose_grad_input(DType dtype, double share) const {
  return choose(window_, size_of_image(x_), y_[1], x_[1], share, dtype);
}

Tiling CookToomConv::output_tiling(const CookToomChoice& tiles) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  return {{tiles.rows, y_[2], dilation.h, padding.h}, {tiles.columns, y_[3], dilation.w, padding.w}, x_[0]};
}

void CookToomConv::forward(const CookToomChoice& tiles, const Array& x, const Array& weight,
                           const std::optional<Array>& bias, const Array& y) const {
  const Tiling tiling = output_tiling(tiles);
  Array biases;
  if (bias) {
    biases = ops::zeros({padded(y_[1])});
    backend({}).copy(*bias, biases.narrow(0, 0, y_[1]));
  }
  const Kernels kernels = kernels_of(weight, false);
  const TilePass::Convolution convolution{kernels, {.bias = bias ? biases.data<float>() : nullptr}, y};
  TilePass{tiling, x, y_[1], convolution}.run();
}

// The gradient of the input is the convolution of the outputs' gradient with the kernel turned by half a turn.
Tiling CookToomConv::input_tiling(const CookToomChoice& tiles) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  return {{tiles.rows, x_[2], dilation.h, (kernel.h - 1) * dilation.h - padding.h},
          {tiles.columns, x_[3], dilation.w, (kernel.w - 1) * dilation.w - padding.w},
          x_[0]};
}

void CookToomConv::grad_input(const CookToomChoice& tiles, const Array& grad_y, const Array& weight,
                              const Array& grad_x) const {
  const Kernels kernels = kernels_of(weight, true);
  const Tiling tiling = input_tiling(tiles);
  TilePass{tiling, grad_y, x_[1], TilePass::Convolution{kernels, {}, grad_x}}.run();
}

void CookToomConv::grad_weight(const CookToomChoice& tiles, const Array& x, const Array& grad_y,
                               const Array& grad_weight) const {
  const Tiling tiling = output_tiling(tiles);
  sum_weight(grad_weight, [&](const Array& sums) {
    const Kernels kernels{sums, false};
    TilePass{tiling, x, y_[1], {}, TilePass::KernelSums{grad_y, kernels}}.run();
  });
}

void CookToomConv::grads(const CookToomChoice& tiles, const Array& x, const Array& grad_y, const Array& weight,
                         bool add, const Array& grad_x, const Array& grad_weight) const {
  const Kernels kernels = kernels_of(weight, true);
  const Tiling tiling = input_tiling(tiles);
  const TilePass::Convolution convolution{kernels, {.bias = nullptr, .add = add}, grad_x};
  sum_weight(grad_weight, [&](const Array& sums) {
    const Kernels sum{sums, true};
    TilePass{tiling, grad_y, x_[1], convolution, TilePass::KernelSums{x, sum}}.run();
  });
}

}  // namespace tandem::cpu

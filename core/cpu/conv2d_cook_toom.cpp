#include <tandem/core/cpu/conv2d_cook_toom.h>
#include <tandem/core/cpu/cook_toom_orders.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops/create.h>

namespace tandem::cpu {

namespace {

Extent size_of_image(const Shape& image) { return {image[2], image[3]}; }

void convolve(const Tiling& tiling, const Array& x, const KernelTaps& taps, const float* bias, const Array& y) {
  if (weight_fits(tiling, x.dim(1), y.dim(1))) convolve_by_blocks(tiling, x, taps, bias, y);
  else convolve_by_panels(tiling, x, taps, bias, y);
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

void CookToomConv::forward(const CookToomChoice& tiles, const Array& x, const Array& weight,
                           const std::optional<Array>& bias, const Array& y) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling{{tiles.rows, y_[2], dilation.h, padding.h}, {tiles.columns, y_[3], dilation.w, padding.w}, x_[0]};
  Array biases;
  if (bias) {
    biases = ops::zeros({padded(y_[1])});
    backend({}).copy(*bias, biases.narrow(0, 0, y_[1]));
  }
  convolve(tiling, x, {weight, false}, bias ? biases.data<float>() : nullptr, y);
}

// The gradient of the input is the convolution of the outputs' gradient with the kernel turned by half a turn.
void CookToomConv::grad_input(const CookToomChoice& tiles, const Array& grad_y, const Array& weight,
                              const Array& grad_x) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling{{tiles.rows, x_[2], dilation.h, (kernel.h - 1) * dilation.h - padding.h},
                      {tiles.columns, x_[3], dilation.w, (kernel.w - 1) * dilation.w - padding.w},
                      x_[0]};
  convolve(tiling, grad_y, {weight, true}, nullptr, grad_x);
}

void CookToomConv::grad_weight(const CookToomChoice& tiles, const Array& x, const Array& grad_y,
                               const Array& grad_weight) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling{{tiles.rows, y_[2], dilation.h, padding.h}, {tiles.columns, y_[3], dilation.w, padding.w}, x_[0]};
  const KernelTaps sums(x_[1], kernel.h * kernel.w, y_[1]);
  if (weight_fits(tiling, x_[1], y_[1])) sum_by_blocks(tiling, x, grad_y, sums);
  else sum_by_panels(tiling, x, grad_y, sums);
  sums.copy_to(grad_weight);
}

}  // namespace tandem::cpu

#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/converted_conv.h>
#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/cpu/conv/cook_toom_orders.h>
#include <tandem/core/cpu/conv/direct_conv.h>
#include <tandem/core/cpu/conv/one_channel_conv.h>
#include <tandem/core/cpu/conv/onednn_conv.h>
#include <tandem/core/cpu/conv/rotated.h>
#include <tandem/core/cpu/conv/tap_conv.h>
#include <tandem/core/device/math_mode.h>

namespace tandem::cpu {

namespace {

// Returns whether tiles can compute the layer, and no method for special layers is faster.
bool suits_tiles(const ConvLayer& layer) {
  const Window& window = layer.window;
  return layer.dtype != DType::f64 && layer.has_one_dtype_of_images() && window.stride == Extent(1) &&
         window.groups == 1 && has_tiles(window.kernel) && !math_mode().exact_convolutions &&
         !OneChannelConv(layer.in(kernel_dtype(layer))).pays() &&
         !DirectConv(layer.in(kernel_dtype(layer))).beats_tiles();
}

// The best tiles for a pass, and the fastest other method for comparison: a product for each tap, or oneDNN.
CookToomChoice best_tiles(const ConvLayer& layer) {
  if (layer.pass == ConvPass::both_gradients) {
    const CookToomChoice tiles = best_tiles(layer.of(ConvPass::input_gradient));
    const bool serves = tiles.beats_direct() && tiles.serves_both_gradients;
    return serves && best_tiles(layer.of(ConvPass::weight_gradient)).beats_direct() ? tiles : CookToomChoice{};
  }
  if (!suits_tiles(layer)) return {};
  const Shape& written = layer.pass == ConvPass::input_gradient ? layer.x : layer.y;
  const Extent size(written[2], written[3]), kernel = layer.window.kernel;
  const std::int64_t inputs = layer.channels_read(), outputs = layer.channels_written();
  const ConvLayer other = layer.in(kernel_dtype(layer));
  const TapConv taps(other);
  const double share = taps.beats_onednn() ? taps.seen_share() : onednn_share(other, taps);
  CookToomChoice tiles = choose_cook_toom(kernel, layer.window.dilation, size, inputs, outputs);
  tiles.direct_cycles = direct_cycles(kernel, size, inputs, outputs, share, other.dtype);
  return tiles;
}

}  // namespace

CookToomConv::CookToomConv(const ConvLayer& layer) : CookToomConv(layer, best_tiles(layer)) {}

Tiling CookToomConv::tiling() const {
  const auto [kernel, stride, padding, dilation, groups] = reads_gradient() ? rotated(layer_.window) : layer_.window;
  const Shape& written = reads_gradient() ? layer_.x : layer_.y;
  return {{tiles_.rows, written[2], dilation.h, padding.h},
          {tiles_.columns, written[3], dilation.w, padding.w},
          written[0]};
}

void CookToomConv::run(const ConvArrays& a) {
  const Tiling tiling = this->tiling();
  const std::int64_t outputs = reads_gradient() ? layer_.x[1] : layer_.y[1];
  TilePass pass{tiling, reads_gradient() ? a.y : a.x, outputs};
  Array bias, sums;
  if (layer_.pass != ConvPass::weight_gradient) {
    if (a.bias) {
      bias = Array::zeros({padded(outputs)});
      backend({}).copy(*a.bias, bias.narrow(0, 0, outputs));
    }
    pass.convolution = {.kernels = {a.weight.to(DType::f32).contiguous(), reads_gradient()},
                        .added = {.bias = a.bias ? bias.data<float>() : nullptr, .add = layer_.add},
                        .y = reads_gradient() ? a.grad_x : a.y};
  }
  if (a.grad_weight.defined()) {
    const bool fits = a.grad_weight.dtype() == DType::f32 && a.grad_weight.is_contiguous();
    sums = fits ? a.grad_weight : Array::empty(a.grad_weight.shape());
    pass.kernel_sums = {.grad_y = reads_gradient() ? a.x : a.y, .sums = {sums, reads_gradient()}};
  }
  pass.run();
  if (!sums.defined()) return;
  if (sums.raw() != a.grad_weight.raw()) backend({}).copy(sums, a.grad_weight);
  sum_bias(a);
}

}  // namespace tandem::cpu

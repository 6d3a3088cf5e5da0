#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/conv_method.h>

namespace tandem::cpu {

namespace {

Shape shape_of(const Array& image, const Array& gradient) { return (image.defined() ? image : gradient).shape(); }

}  // namespace

ConvLayer::ConvLayer(ConvPass pass, const Window& window, const ConvArrays& a, bool add)
    : pass(pass),
      window(window),
      x(shape_of(a.x, a.grad_x)),
      y(a.y.shape()),
      dtype((a.x.defined() ? a.x : a.y).dtype()),
      y_dtype(a.y.dtype()),
      weight_dtype((a.weight.defined() ? a.weight : a.grad_weight).dtype()),
      add(add) {
  if (const auto& bias = a.bias ? a.bias : a.grad_bias) bias_dtype = bias->dtype();
}

ConvLayer ConvLayer::in(DType other) const {
  ConvLayer layer = *this;
  layer.dtype = layer.y_dtype = layer.weight_dtype = other;
  if (bias_dtype) layer.bias_dtype = other;
  return layer;
}

ConvLayer ConvLayer::of(ConvPass other) const {
  ConvLayer layer = *this;
  layer.pass = other;
  return layer;
}

ConvChoice choose_conv_method(const ConvLayer& layer) {
  std::string why_no_other;
  for (const MakeConvMethod make : conv_methods()) {
    auto method = make(layer);
    if (method->pays()) {
      std::string note = method->name() + why_no_other;
      return {std::move(method), std::move(note)};
    }
    if (const std::string why = method->why_not(); !why.empty()) why_no_other += "; " + why;
  }
  return {};
}

void sum_bias(const ConvArrays& arrays) {
  if (!arrays.grad_bias) return;
  const Array& sums = *arrays.grad_bias;
  const Array pixels = arrays.y.permute({0, 2, 3, 1}).reshape({-1, sums.numel()}).to(DType::f32);
  const Array row = Array::empty({1, sums.numel()});
  backend({}).reduce(Reduction::sum, pixels, row);
  backend({}).copy(row.reshape(sums.shape()), sums);
}

}  // namespace tandem::cpu

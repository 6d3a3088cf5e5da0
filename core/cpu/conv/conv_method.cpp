#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/conv_method.h>
#include <tandem/core/cpu/conv/plain_conv.h>

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
  const auto fast = fast_conv_methods.entries();
  std::vector<FastConvMethod> methods(fast.begin(), fast.end());
  methods.push_back({"PlainConv", make_conv_method<PlainConv>});
  std::string why_no_other;
  for (const FastConvMethod& each : methods) {
    auto method = each.make(layer);
    if (method->pays()) {
      std::string note = method->name() + why_no_other;
      return {std::move(method), std::move(note)};
    }
    if (const std::string why = method->why_not(); !why.empty()) why_no_other += "; " + why;
  }
  return {};
}

ConvArrays in_dtype(DType dtype, ConvPass pass, const ConvArrays& arrays) {
  const auto read = [&](const Array& a) { return a.defined() ? a.to(dtype) : a; };
  const auto is_ready = [&](const Array& a) { return !a.defined() || a.dtype() == dtype; };
  const auto image = [&](const Array& a) { return is_ready(a) ? a : Array::empty_channels_last(a.shape(), dtype); };
  const auto weight = [&](const Array& a) { return is_ready(a) ? a : Array::empty(a.shape(), dtype); };
  ConvArrays made{.x = read(arrays.x), .weight = read(arrays.weight)};
  if (arrays.bias) made.bias = read(*arrays.bias);
  made.y = pass == ConvPass::outputs ? image(arrays.y) : read(arrays.y);
  made.grad_x = image(arrays.grad_x);
  made.grad_weight = weight(arrays.grad_weight);
  if (arrays.grad_bias) made.grad_bias = weight(*arrays.grad_bias);
  return made;
}

void copy_results(ConvPass pass, const ConvArrays& from, const ConvArrays& to) {
  const auto copy = [](const Array& a, const Array& b) {
    if (a.defined() && a.dtype() != b.dtype()) backend({}).copy(a, b);
  };
  if (pass == ConvPass::outputs) copy(from.y, to.y);
  copy(from.grad_x, to.grad_x);
  copy(from.grad_weight, to.grad_weight);
  if (to.grad_bias) copy(*from.grad_bias, *to.grad_bias);
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

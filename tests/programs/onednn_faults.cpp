// Tries oneDNN's convolutions, including those with known faults, and compares them with sums in f64. The layers are
// random, or those of the table in core/cpu/onednn_faults.cpp. tests/long/onednn_faults runs this program.
//   onednn_faults [LAYERS]
#include <tandem/core/cpu/conv/onednn_conv.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/cpu/onednn_faults.h>
#include <tandem/core/ops.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace tandem;

namespace {

struct Layer {
  Shape x;
  std::int64_t outputs;
  Window window;
  DType dtype;
};

std::ostream& operator<<(std::ostream& os, const Layer& l) {
  return os << l.x << " to " << l.outputs << " channels, kernel " << l.window.kernel << ", stride " << l.window.stride
            << ", padding " << l.window.padding << ", dilation " << l.window.dilation << ", groups " << l.window.groups;
}

struct Count {
  int tried = 0, wrong = 0, refused = 0;
};

// oneDNN's own rounding errors, relative to f64, are far smaller.
double allowed(DType dtype) { return dtype == DType::bf16 ? 2e-2 : 1e-4; }

// The RMS of the difference, relative to that of `expected`. Undefined if that is 0, because the layer sees only
// padding.
std::optional<double> relative_rms(const Array& found, const Array& expected) {
  const auto f = found.to(DType::f64).contiguous().to_vector<double>(), e = expected.contiguous().to_vector<double>();
  double difference = 0, sum = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    difference += (f[i] - e[i]) * (f[i] - e[i]);
    sum += e[i] * e[i];
  }
  return sum == 0 ? std::nullopt : std::optional(std::sqrt(difference / sum));
}

// Computes the pass with oneDNN. Returns false if oneDNN has no kernel for it, or if another method is always faster.
bool run(cpu::ConvPass pass, const Window& window, const cpu::ConvArrays& arrays) {
  const auto method = cpu::make_onednn_conv(cpu::ConvLayer(pass, window, arrays));
  if (!method->pays()) return false;
  method->run(arrays);
  return true;
}

// Computes a pass into `y`, which is filled with NaN first, and counts the result.
void attempt(Count& count, const char* name, cpu::ConvPass pass, const Layer& layer, Array y,
             const cpu::ConvArrays& arrays, const Array& expected) {
  y.fill(NAN);
  if (!run(pass, layer.window, arrays)) {
    ++count.refused;
    return;
  }
  ++count.tried;
  const auto error = relative_rms(y, expected);
  if (!error || *error <= allowed(layer.dtype)) return;
  if (++count.wrong <= 5) std::cout << "  wrong: " << name << " of " << layer << ": error " << *error << "\n";
}

// Tries all three passes of a layer.
void try_layer(Count& count, const Layer& l) {
  const Array x = ops::randn(l.x).channels_last().to(l.dtype);
  const Array weight =
      ops::randn({l.outputs, l.x[1] / l.window.groups, l.window.kernel.h, l.window.kernel.w}).to(l.dtype);
  const Array x64 = x.to(DType::f64), weight64 = weight.to(DType::f64);
  const Array y64 = ops::conv2d(x64, weight64, {}, l.window);
  const Array grad_y = ops::randn(y64.shape()).channels_last().to(l.dtype), grad64 = grad_y.to(DType::f64);

  const Array y = Array::empty_channels_last(y64.shape(), l.dtype);
  attempt(count, "outputs", cpu::ConvPass::outputs, l, y, {.x = x, .weight = weight, .y = y}, y64);
  const Array grad_x = Array::empty_channels_last(l.x, l.dtype);
  attempt(count, "the input's gradient", cpu::ConvPass::input_gradient, l, grad_x,
          {.weight = weight, .y = grad_y, .grad_x = grad_x}, ops::conv2d_grad_input(grad64, weight64, l.window, l.x));
  const Array grad_weight = Array::empty(weight.shape(), DType::f32);
  attempt(count, "the weight's gradient", cpu::ConvPass::weight_gradient, l, grad_weight,
          {.x = x, .y = grad_y, .grad_weight = grad_weight},
          ops::conv2d_grad_weight(x64, grad64, l.window, l.outputs, false, DType::f64).weight);
}

std::mt19937 random_bits;

std::int64_t drawn(std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random_bits);
}

std::int64_t channels() {
  constexpr std::int64_t often[] = {1, 2, 3, 8, 15, 16, 17, 24, 32, 33, 48, 64, 96, 128};
  return often[drawn(0, 13)];
}

// Returns a random layer whose outputs have at least one pixel.
Layer any_layer(DType dtype) {
  for (;;) {
    Window w{.kernel = {drawn(1, 7), drawn(1, 7)}};
    if (drawn(0, 2) == 0) w.stride = {drawn(1, 3), drawn(1, 3)};
    if (drawn(0, 2) == 0) w.dilation = {drawn(1, 4), drawn(1, 4)};
    w.padding = {drawn(0, w.kernel.h), drawn(0, w.kernel.w)};
    const std::int64_t groups = drawn(0, 5) == 0 ? drawn(2, 8) : 1;
    w.groups = groups;
    const Layer l{{drawn(1, 3), channels() * groups, drawn(1, 20), drawn(1, 20)}, channels() * groups, w, dtype};
    const bool fits = l.x[2] + 2 * w.padding.h > (w.kernel.h - 1) * w.dilation.h &&
                      l.x[3] + 2 * w.padding.w > (w.kernel.w - 1) * w.dilation.w;
    if (fits) return l;
  }
}

Layer wide_layer() {
  const std::int64_t taps = drawn(3, 9), dilation = drawn(1, 12), reach = (taps - 1) * dilation + 1;
  if (reach <= 7) return wide_layer();
  const std::int64_t width = drawn(1, reach - 1), padding = drawn((reach - width + 1) / 2, reach - 1);
  return {{drawn(1, 3), channels(), drawn(1, 12), width},
          channels(),
          {.kernel = {drawn(1, 3), taps}, .padding = {3, padding}, .dilation = {1, dilation}},
          DType::f32};
}

Layer odd_outputs() {
  return {{drawn(1, 3), channels(), drawn(1, 12), drawn(1, 12)}, 2 * drawn(0, 40) + 1, {}, DType::bf16};
}

Layer dilated_sums() {
  Layer l = any_layer(DType::bf16);
  while (l.window.dilation == Extent(1) && l.x[2] >= l.window.kernel.h && l.x[3] >= l.window.kernel.w)
    l = any_layer(DType::bf16);
  return l;
}

// An Inf in one pixel must affect only that pixel's outputs. The number of input channels is odd.
void try_inf(Count& count) {
  const std::int64_t inputs = 2 * drawn(0, 40) + 1, outputs = channels(), width = drawn(2, 12);
  const Array x = ops::randn({1, inputs, 1, width}).channels_last(), weight = ops::randn({outputs, inputs, 1, 1});
  const std::int64_t at = drawn(0, width - 1);
  x.data<float>()[at * inputs] = INFINITY;
  const Array y = Array::empty_channels_last({1, outputs, 1, width}, DType::bf16);
  if (!run(cpu::ConvPass::outputs, {}, {.x = x.to(DType::bf16), .weight = weight.to(DType::bf16), .y = y})) {
    ++count.refused;
    return;
  }
  ++count.tried;
  const Array found = y.to(DType::f32);
  bool is_wrong = false;
  for (std::int64_t i = 0; i < width * outputs; ++i)
    is_wrong |= i / outputs != at && !std::isfinite(found.data<float>()[i]);
  count.wrong += is_wrong;
}

template <class F>
void report(const std::string& what, int layers, F one) {
  Count count;
  for (int i = 0; i < layers; ++i) one(count);
  std::cout << what << ": " << count.tried << " passes, " << count.wrong << " wrong, " << count.refused
            << " without a kernel\n";
}

}  // namespace

int main(int argc, char** argv) {
  const int layers = argc > 1 ? std::atoi(argv[1]) : 1000;
  std::cout << "oneDNN " << onednn::loaded_version() << (onednn::has_avx512() ? ", AVX-512\n" : ", AVX2\n");
  onednn::forget_faults();
  report("any layer, f32", layers, [](Count& c) { try_layer(c, any_layer(DType::f32)); });
  report("wide_forward", layers, [](Count& c) { try_layer(c, wide_layer()); });
  report("any layer, bf16", layers, [](Count& c) { try_layer(c, any_layer(DType::bf16)); });
  report("odd_outputs_bf16", layers, [](Count& c) { try_layer(c, odd_outputs()); });
  report("odd_inputs_bf16", layers, try_inf);
  report("weight_sums_bf16", layers, [](Count& c) { try_layer(c, dilated_sums()); });
}

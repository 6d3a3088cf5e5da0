#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/plain_conv.h>

#include <Eigen/Core>

#include <algorithm>

namespace tandem::cpu {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixOf = Eigen::Map<Matrix<T>>;

// Calls f(row, column, pixel) for each element of an image's window matrix that lies inside the image. `row` is an
// output pixel, `column` a tap of the kernel, and `pixel` is h * width + w of the input. The caller multiplies `column`
// and `pixel` by a number of channels.
template <class F>
void for_each_window_element(const ConvLayer& layer, F f) {
  const Shape &x = layer.x, &y = layer.y;
  const Window& w = layer.window;
  for (std::int64_t o = 0; o < y[2] * y[3]; ++o)
    for (std::int64_t k = 0; k < w.kernel.h * w.kernel.w; ++k) {
      const std::int64_t h = o / y[3] * w.stride.h - w.padding.h + k / w.kernel.w * w.dilation.h;
      const std::int64_t v = o % y[3] * w.stride.w - w.padding.w + k % w.kernel.w * w.dilation.w;
      if (0 <= h && h < x[2] && 0 <= v && v < x[3]) f(o, k, h * x[3] + v);
    }
}

// Returns image `n` as (H * W, C).
template <class T>
MatrixOf<T> image_matrix(const Array& a, std::int64_t n) {
  const std::int64_t pixels = a.dim(2) * a.dim(3);
  return {a.data<T>() + n * pixels * a.dim(1), pixels, a.dim(1)};
}

// Returns the windows of an image in some channels, as rows (KH * KW * channels).
template <class T>
Matrix<T> windows_of(const ConvLayer& layer, const MatrixOf<T>& image, std::int64_t first, std::int64_t channels) {
  Matrix<T> rows = Matrix<T>::Zero(layer.y[2] * layer.y[3], layer.window.kernel.h * layer.window.kernel.w * channels);
  for_each_window_element(layer, [&](std::int64_t row, std::int64_t k, std::int64_t pixel) {
    std::copy_n(&image(pixel, first), channels, &rows(row, k * channels));
  });
  return rows;
}

// Computes a pass. The weight, or its gradient, is (O, KH, KW, C / groups); its rows match those of windows_of.
template <class T>
void compute(const ConvLayer& layer, const ConvArrays& arrays, const Array& weight_khwc) {
  using Row = Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>>;
  const auto row_of = [](const std::optional<Array>& a) { return Row(a ? a->data<T>() : nullptr, a ? a->numel() : 0); };
  const std::int64_t groups = layer.window.groups, in = layer.x[1] / groups, out = layer.y[1] / groups;
  MatrixOf<T> weight(weight_khwc.data<T>(), layer.y[1], weight_khwc.numel() / layer.y[1]);
  Row bias = row_of(arrays.bias), grad_bias = row_of(arrays.grad_bias);
  if (layer.pass == ConvPass::weight_gradient) {
    weight.setZero();
    grad_bias.setZero();
  }
  for (std::int64_t n = 0; n < layer.x[0]; ++n) {
    auto y = image_matrix<T>(arrays.y, n);
    for (std::int64_t g = 0; g < groups; ++g) {
      auto outputs = y.middleCols(g * out, out);
      auto taps = weight.middleRows(g * out, out);
      if (layer.pass == ConvPass::input_gradient) {
        auto image = image_matrix<T>(arrays.grad_x, n);
        if (g == 0) image.setZero();
        const Matrix<T> rows = outputs * taps;
        for_each_window_element(layer, [&](std::int64_t row, std::int64_t k, std::int64_t pixel) {
          image.block(pixel, g * in, 1, in) += rows.block(row, k * in, 1, in);
        });
        continue;
      }
      const Matrix<T> windows = windows_of<T>(layer, image_matrix<T>(arrays.x, n), g * in, in);
      if (layer.pass == ConvPass::outputs) outputs.noalias() = windows * taps.transpose();
      else taps.noalias() += outputs.transpose() * windows;
    }
    if (arrays.bias) y.rowwise() += bias;
    if (arrays.grad_bias) grad_bias += y.colwise().sum();
  }
}

}  // namespace

void PlainConv::run(const ConvArrays& arrays) {
  const DType dtype = compute_dtype(layer_.dtype);
  ConvArrays converted = in_dtype(dtype, layer_.pass, arrays);
  const bool sums_weight = layer_.pass == ConvPass::weight_gradient;
  if (converted.bias) converted.bias = converted.bias->contiguous();
  const Array weight = (sums_weight ? converted.grad_weight : converted.weight).permute({0, 2, 3, 1});
  const Array weight_khwc = sums_weight ? Array::empty(weight.shape(), dtype) : weight.contiguous();
  if (dtype == DType::f64) compute<double>(layer_, converted, weight_khwc);
  else compute<float>(layer_, converted, weight_khwc);
  if (sums_weight) backend({}).copy(weight_khwc, weight);
  copy_results(layer_.pass, converted, arrays);
}

}  // namespace tandem::cpu

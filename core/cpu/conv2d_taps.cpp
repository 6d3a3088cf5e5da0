#include <tandem/core/cpu/conv2d_taps.h>
#include <tandem/core/cpu/onednn.h>

#include <algorithm>

namespace tandem::cpu {

namespace {

Array pixels_last(const Array& image) { return image.permute({0, 2, 3, 1}); }  // (N, H, W, C)

// (N, H, W, C) -> (N * H * W, C)
Array as_matrix(const Array& pixels) { return pixels.reshape({-1, pixels.dim(-1)}); }

// y = a b + bias for bf16 or f32, with sums in f32.
void multiply(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  if (a.dtype() == DType::bf16 && onednn::matmul(a, b, bias, y)) return;
  if (y.dtype() != DType::f32) {
    const Array sum = Array::empty(y.shape());
    multiply(a, b, bias, sum);
    return backend({}).copy(sum, y);
  }
  backend({}).matmul(a.to(DType::f32), b.to(DType::f32), bias, y);
}

}  // namespace

ConvTaps::ConvTaps(const Window& window, const Shape& x, const Shape& y)
    : window_(window),
      x_(x),
      y_(y),
      rows_(along(x[2], y[2], window.kernel.h, window.stride.h, window.padding.h, window.dilation.h)),
      columns_(along(x[3], y[3], window.kernel.w, window.stride.w, window.padding.w, window.dilation.w)) {}

std::vector<ConvTaps::Reach> ConvTaps::along(std::int64_t x, std::int64_t y, std::int64_t kernel, std::int64_t stride,
                                             std::int64_t padding, std::int64_t dilation) {
  std::vector<Reach> reaches;
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t offset = k * dilation - padding;  // through this tap, output o sees input o * stride + offset
    const auto outputs_below = [&](std::int64_t input) {
      return std::clamp<std::int64_t>((input - offset + stride - 1) / stride, 0, y);
    };
    const std::int64_t first = offset < 0 ? outputs_below(0) : 0, end = x > offset ? outputs_below(x) : 0;
    reaches.push_back({first, first * stride + offset, std::max<std::int64_t>(0, end - first)});
  }
  return reaches;
}

double ConvTaps::seen(const std::vector<Reach>& reaches, std::int64_t outputs) {
  double sum = 0;
  for (const Reach& reach : reaches) sum += static_cast<double>(reach.count);
  return sum / static_cast<double>(outputs * static_cast<std::int64_t>(reaches.size()));
}
double ConvTaps::share() const { return row_share() * seen(columns_, y_[3]); }
double ConvTaps::row_share() const { return seen(rows_, y_[2]); }

std::vector<ConvTaps::Tap> ConvTaps::taps() const {
  std::vector<Tap> all;
  for (std::size_t h = 0; h < rows_.size(); ++h)
    for (std::size_t w = 0; w < columns_.size(); ++w)
      all.push_back({static_cast<std::int64_t>(h), static_cast<std::int64_t>(w), rows_[h], columns_[w]});
  return all;
}

Array ConvTaps::seen_of_x(const Array& x, const Tap& tap) const {
  const auto cut = [](const Array& a, int dim, const Reach& reach, std::int64_t stride) {
    return a.slice(dim, reach.first_x, reach.first_x + (reach.count - 1) * stride + 1, stride);
  };
  return cut(cut(pixels_last(x), 1, tap.rows, window_.stride.h), 2, tap.columns, window_.stride.w);
}

Array ConvTaps::seen_of_y(const Array& y, const Tap& tap) const {
  return pixels_last(y).narrow(1, tap.rows.first_y, tap.rows.count).narrow(2, tap.columns.first_y, tap.columns.count);
}

void ConvTaps::sum_taps(Towards side, const Array& from, const Array& weight, const std::optional<Array>& bias,
                        const Array& to) const {
  const bool to_y = side == Towards::y;
  const Shape& image = to_y ? y_ : x_;
  std::vector<Tap> seeing = taps();
  std::erase_if(seeing, [](const Tap& tap) { return tap.rows.count * tap.columns.count == 0; });
  // A tap that reaches every pixel comes first, and writes them. What the others contribute is added in f32.
  const auto whole = std::ranges::find_if(
      seeing, [&](const Tap& tap) { return tap.rows.count == image[2] && tap.columns.count == image[3]; });
  const bool has_whole = whole != seeing.end();
  if (has_whole) std::swap(*whole, seeing.front());
  const bool is_one_product = has_whole && seeing.size() == 1;
  const Array sum =
      is_one_product || to.dtype() == DType::f32 ? to : Array::empty_channels_last(to.shape(), DType::f32);
  if (!has_whole) {
    if (bias) backend({}).copy(bias->reshape({1, -1, 1, 1}).expand(sum.shape()), sum);
    else backend({}).fill(sum, 0);
  }
  for (std::size_t i = 0; i < seeing.size(); ++i) {
    const Tap& tap = seeing[i];
    const Array pixels = as_matrix(to_y ? seen_of_x(from, tap) : seen_of_y(from, tap));
    const Array matrix = weight.select(3, tap.w).select(2, tap.h).to(pixels.dtype()).contiguous();
    const Array factors = to_y ? matrix.transpose(0, 1) : matrix;
    if (i == 0 && has_whole) {
      multiply(pixels, factors, bias, as_matrix(pixels_last(sum)));
      continue;
    }
    const Array product = Array::empty({pixels.dim(0), factors.dim(1)});
    multiply(pixels, factors, std::nullopt, product);
    const Array target = to_y ? seen_of_y(sum, tap) : seen_of_x(sum, tap);
    backend({}).zip(functors::Add{}, target, product.reshape(target.shape()), target);
  }
  if (sum.dtype() != to.dtype()) backend({}).copy(sum, to);
}

void ConvTaps::forward(const Array& x, const Array& weight, const std::optional<Array>& bias, const Array& y) const {
  sum_taps(Towards::y, x, weight, bias, y);
}

void ConvTaps::grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const {
  sum_taps(Towards::x, grad_y, weight, std::nullopt, grad_x);
}

void ConvTaps::grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const {
  for (const Tap& tap : taps()) {
    const Array gradient = grad_weight.select(3, tap.w).select(2, tap.h);  // (out channels, in channels)
    if (tap.rows.count * tap.columns.count == 0) {
      backend({}).fill(gradient, 0);
      continue;
    }
    const Array product = gradient.is_contiguous() ? gradient : Array::empty(gradient.shape());
    multiply(as_matrix(seen_of_y(grad_y, tap)).transpose(0, 1), as_matrix(seen_of_x(x, tap)), std::nullopt, product);
    if (!gradient.is_contiguous()) backend({}).copy(product, gradient);
  }
}

}  // namespace tandem::cpu

#include <tandem/core/cpu/conv2d_taps.h>
#include <tandem/core/cpu/onednn.h>

#include <algorithm>

namespace tandem::cpu {

namespace {

Array pixels_last(const Array& image) { return image.permute({0, 2, 3, 1}); }  // (N, H, W, C)

// (N, H, W, C) -> (N * H * W, C)
Array as_matrix(const Array& pixels) { return pixels.reshape({-1, pixels.dim(-1)}); }

// y = a b for bf16 or f32, with sums in f32.
void multiply(const Array& a, const Array& b, const Array& y) {
  if (a.dtype() == DType::bf16 && onednn::matmul(a, b, std::nullopt, y)) return;
  if (y.dtype() != DType::f32) {
    const Array sum = Array::empty(y.shape());
    multiply(a, b, sum);
    return backend({}).copy(sum, y);
  }
  backend({}).matmul(a.to(DType::f32), b.to(DType::f32), std::nullopt, y);
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

template <class F>
void ConvTaps::for_each_tap(F f) const {
  for (std::size_t h = 0; h < rows_.size(); ++h)
    for (std::size_t w = 0; w < columns_.size(); ++w)
      f(static_cast<std::int64_t>(h), static_cast<std::int64_t>(w), rows_[h], columns_[w]);
}

bool ConvTaps::sees_all_of_x(const Reach& h, const Reach& w) const { return h.count == x_[2] && w.count == x_[3]; }

Array ConvTaps::seen_of_x(const Array& x, const Reach& h, const Reach& w) const {
  const auto cut = [](const Array& a, int dim, const Reach& reach, std::int64_t stride) {
    return a.slice(dim, reach.first_x, reach.first_x + (reach.count - 1) * stride + 1, stride);
  };
  return cut(cut(pixels_last(x), 1, h, window_.stride.h), 2, w, window_.stride.w);
}

Array ConvTaps::seen_of_y(const Array& y, const Reach& h, const Reach& w) const {
  return pixels_last(y).narrow(1, h.first_y, h.count).narrow(2, w.first_y, w.count);
}

void ConvTaps::grad_input(const Array& grad_y, const Array& weight, const Array& grad_x) const {
  // Where several taps contribute to an input, they are summed up in f32.
  std::int64_t taps = 0;
  bool one_is_all = false;
  for_each_tap([&](std::int64_t, std::int64_t, const Reach& h, const Reach& w) {
    taps += h.count * w.count > 0;
    one_is_all = one_is_all || sees_all_of_x(h, w);
  });
  const bool is_one_product = taps == 1 && one_is_all;
  const Array sum =
      is_one_product || grad_x.dtype() == DType::f32 ? grad_x : Array::empty_channels_last(grad_x.shape(), DType::f32);
  if (!is_one_product) backend({}).fill(sum, 0);
  for_each_tap([&](std::int64_t kh, std::int64_t kw, const Reach& h, const Reach& w) {
    if (h.count * w.count == 0) return;
    const Array grad = as_matrix(seen_of_y(grad_y, h, w));
    const Array matrix = weight.select(3, kw).select(2, kh).to(grad.dtype()).contiguous();
    if (is_one_product) return multiply(grad, matrix, as_matrix(pixels_last(sum)));
    const Array product = Array::empty({grad.dim(0), matrix.dim(1)});
    multiply(grad, matrix, product);
    const Array target = seen_of_x(sum, h, w);
    backend({}).zip(functors::Add{}, target, product.reshape(target.shape()), target);
  });
  if (sum.dtype() != grad_x.dtype()) backend({}).copy(sum, grad_x);
}

void ConvTaps::grad_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const {
  for_each_tap([&](std::int64_t kh, std::int64_t kw, const Reach& h, const Reach& w) {
    const Array tap = grad_weight.select(3, kw).select(2, kh);  // (out channels, in channels)
    if (h.count * w.count == 0) return backend({}).fill(tap, 0);
    const Array product = tap.is_contiguous() ? tap : Array::empty(tap.shape());
    multiply(as_matrix(seen_of_y(grad_y, h, w)).transpose(0, 1), as_matrix(seen_of_x(x, h, w)), product);
    if (!tap.is_contiguous()) backend({}).copy(product, tap);
  });
}

}  // namespace tandem::cpu

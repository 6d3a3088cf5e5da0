#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/blocks.h>
#include <tandem/core/cpu/conv/tap_conv.h>
#include <tandem/core/cpu/conv/tap_panels.h>
#include <tandem/core/cpu/conv/tile_products.h>
#include <tandem/core/cpu/onednn.h>

#include <algorithm>

namespace tandem::cpu {

namespace {

Array pixels_last(const Array& image) { return image.permute({0, 2, 3, 1}); }  // (N, H, W, C)

// (N, H, W, C) -> (N * H * W, C)
Array as_matrix(const Array& pixels) { return pixels.reshape({-1, pixels.dim(-1)}); }

// Computes y = a b + bias for bf16 or f32, with sums in f32.
void multiply(const Array& a, const Array& b, const std::optional<Array>& bias, const Array& y) {
  if (a.dtype() == DType::bf16 && onednn::matmul(a, b, bias, y)) return;
  if (y.dtype() != DType::f32) {
    const Array sum = Array::empty(y.shape());
    multiply(a, b, bias, sum);
    return backend({}).copy(sum, y);
  }
  backend({}).matmul(a.to(DType::f32), b.to(DType::f32), bias, y);
}

// Returns pixels in f32 whose distance is not a large power of two, so they don't evict each other from a cache.
Array spread_pixels(const Array& pixels) {
  Shape room = pixels.shape();
  room[3] = spread(pixels.dim(3));
  if (pixels.dtype() == DType::f32 && room == pixels.shape()) return pixels;
  const Array copy = Array::empty(room).narrow(3, 0, pixels.dim(3));
  backend({}).copy(pixels, copy);
  return copy;
}

}  // namespace

TapConv::TapConv(const ConvLayer& layer) : ConvMethod(layer) {
  const auto& [kernel, stride, padding, dilation, groups] = layer.window;
  rows_ = along(layer.x[2], layer.y[2], kernel.h, stride.h, padding.h, dilation.h);
  columns_ = along(layer.x[3], layer.y[3], kernel.w, stride.w, padding.w, dilation.w);
}

bool TapConv::pays() const {
  return layer_.window.groups == 1 && (layer_.dtype == DType::f32 || layer_.dtype == DType::bf16) &&
         layer_.pass != ConvPass::both_gradients;
}

bool TapConv::beats_onednn() const {
  if (layer_.pass == ConvPass::outputs && is_single()) return false;
  return pays() && (is_single() || seen_share() <= (layer_.pass == ConvPass::weight_gradient ? 0.75 : 0.5));
}

std::vector<TapConv::Reach> TapConv::along(std::int64_t x, std::int64_t y, std::int64_t kernel, std::int64_t stride,
                                           std::int64_t padding, std::int64_t dilation) {
  std::vector<Reach> reaches;
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t offset = k * dilation - padding;  // through this tap, output o reads input o * stride + offset
    const auto outputs_below = [&](std::int64_t input) {
      return std::clamp<std::int64_t>((input - offset + stride - 1) / stride, 0, y);
    };
    const std::int64_t first = offset < 0 ? outputs_below(0) : 0, end = x > offset ? outputs_below(x) : 0;
    reaches.push_back({{first, 1}, {first * stride + offset, stride}, std::max<std::int64_t>(0, end - first)});
  }
  return reaches;
}

double TapConv::share_of(const std::vector<Reach>& reaches, std::int64_t outputs) {
  double sum = 0;
  for (const Reach& reach : reaches) sum += static_cast<double>(reach.count);
  return sum / static_cast<double>(outputs * static_cast<std::int64_t>(reaches.size()));
}
double TapConv::seen_share() const { return seen_row_share() * share_of(columns_, layer_.y[3]); }
double TapConv::seen_row_share() const { return share_of(rows_, layer_.y[2]); }

std::vector<TapConv::Tap> TapConv::taps() const {
  std::vector<Tap> seeing;
  for (std::size_t h = 0; h < rows_.size(); ++h)
    for (std::size_t w = 0; w < columns_.size(); ++w)
      if (rows_[h].count > 0 && columns_[w].count > 0)
        seeing.push_back({static_cast<std::int64_t>(h), static_cast<std::int64_t>(w), rows_[h], columns_[w]});
  return seeing;
}

Array TapConv::seen(const Array& image, Side side, const Tap& tap) {
  const auto cut = [&](const Array& a, int dim, const Reach& reach) {
    const auto [first, step] = reach.of(side);
    return a.slice(dim, first, first + (reach.count - 1) * step + 1, step);
  };
  return cut(cut(pixels_last(image), 1, tap.rows), 2, tap.columns);
}

void TapConv::add_up(const Sum& sum) const {
  if (sum.to.numel() == 0) return;
  const std::vector<Tap> seeing = taps();
  if (is_single() && !seeing.empty()) return run_one(sum, seeing.front());
  if (sum.to.dtype() == DType::f32) return run_all(sum, seeing);
  const Array to = Array::empty_channels_last(sum.to.shape(), DType::f32);
  run_all({sum.side, sum.from, sum.weight, sum.bias, to}, seeing);
  backend({}).copy(to, sum.to);
}

// Computes the product of a 1 x 1 kernel. Pixels that read no input get only the bias.
void TapConv::run_one(const Sum& sum, const Tap& tap) {
  const Array from = seen(sum.from, sum.other_side(), tap), to = seen(sum.to, sum.side, tap);
  const Array weight = sum.weight.reshape({sum.weight.dim(0), -1}).to(from.dtype());
  const Array matrix = sum.side == Side::y ? weight.transpose(0, 1) : weight;  // (channels of from, channels of to)
  if (to.numel() == sum.to.numel()) return multiply(as_matrix(from), matrix, sum.bias, as_matrix(to));
  if (sum.bias) backend({}).copy(sum.bias->expand(pixels_last(sum.to).shape()), pixels_last(sum.to));
  else backend({}).fill(sum.to, 0);
  const Array product = Array::empty({from.numel() / from.dim(-1), to.dim(-1)}, to.dtype());
  multiply(as_matrix(from), matrix, sum.bias, product);
  backend({}).copy(product.reshape(to.shape()), to);
}

// Computes sums in f32. Through one tap, the contribution of a row's pixels to their sums is one matrix product, which
// reads the pixels in place. A thread processes one panel of outputs at a time. It adds up a block of pixels in its
// cache, for some inputs at a time, so the weights of their taps stay in the cache too.
void TapConv::run_all(const Sum& sum, std::vector<Tap> seeing) {
  const std::int64_t inputs = sum.from.dim(1), outputs = sum.to.dim(1), width = sum.to.dim(3);
  const std::int64_t rows = sum.to.dim(0) * sum.to.dim(2);
  const Array from = spread_pixels(pixels_last(sum.from)), to = pixels_last(sum.to);
  const Array bias = Array::zeros({padded(outputs)});
  if (sum.bias) backend({}).copy(*sum.bias, bias.narrow(0, 0, outputs));
  // The weights of taps before the first that reads any input, and after the last, are not copied.
  Array weight = sum.weight.to(DType::f32);
  if (!seeing.empty()) {
    const Tap first = seeing.front(), last = seeing.back();
    weight = weight.narrow(2, first.h, last.h - first.h + 1).narrow(3, first.w, last.w - first.w + 1);
    for (Tap& tap : seeing) tap.h -= first.h, tap.w -= first.w;
  }
  const Kernels kernels{weight.contiguous(), sum.side == Side::x};

  // A block consists of some rows of `to`, counted across all images, whose sums take a quarter of a megabyte.
  const std::int64_t block = std::max<std::int64_t>((64 << 10) / panel / width, 1);
  const Slices slices(outputs, 1);
  const std::int64_t weight_numbers = spread(inputs * kernels.taps() * panel);
  const Array memory = Array::empty({slices.workers, weight_numbers + spread(block * width * panel)});
  slices.for_each(to.numel() * inputs, [&](std::int64_t worker, std::int64_t slice, std::int64_t part) {
    const std::int64_t output = slice * panel, channels = slices.channels(slice);
    TapPanels weights(kernels, {output, channels}, {0, inputs});
    weights.use(memory.data<float>() + worker * memory.dim(1));
    weights.read(0);
    float* const sums = weights.at(0, 0) + weight_numbers;
    const std::int64_t pixel = weights.width(), end = rows * (part + 1) / slices.parts;
    for (std::int64_t first = rows * part / slices.parts; first < end; first += block) {
      const std::int64_t last = std::min(first + block, end), pixels = (last - first) * width;
      for (std::int64_t p = 0; p < pixels; ++p) std::copy_n(bias.data<float>() + output, pixel, sums + p * pixel);
      add_rows(sum, seeing, from, weights, {first, last}, sums);
      float* const out = to.data<float>() + first * width * outputs + output;
      for (std::int64_t p = 0; p < pixels; ++p) std::copy_n(sums + p * pixel, channels, out + p * outputs);
    }
  });
}

void TapConv::add_rows(const Sum& sum, const std::vector<Tap>& seeing, const Array& from, const TapPanels& weights,
                       Rows rows, float* sums) {
  const std::int64_t height = sum.to.dim(2), width = sum.to.dim(3), pixel = weights.width();
  const std::int64_t inputs = from.dim(3), turns = parts_of_sum<false>(inputs);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    const std::int64_t input = inputs * turn / turns;
    for (const Tap& tap : seeing) {
      const Line down = tap.rows.of(sum.side), across = tap.columns.of(sum.side);
      const Line from_down = tap.rows.of(sum.other_side()), from_across = tap.columns.of(sum.other_side());
      for (std::int64_t image = rows.first / height; image * height < rows.last; ++image) {
        const auto on_line = [&](std::int64_t row) {  // the number of this image's rows on the line before `row`
          const std::int64_t steps = (row - image * height - down.first + down.step - 1) / down.step;
          return std::clamp<std::int64_t>(steps, 0, tap.rows.count);
        };
        const std::int64_t begin = on_line(rows.first);
        const std::int64_t row = image * height + down.first + begin * down.step - rows.first;
        multiply_tiles<false>({.count = on_line(rows.last) - begin,
                               .rows = tap.columns.count,
                               .inner = inputs * (turn + 1) / turns - input,
                               .columns = pixel,
                               .a = from.data<float>() + image * from.strides()[0] +
                                    (from_down.first + begin * from_down.step) * from.strides()[1] +
                                    from_across.first * from.strides()[2] + input,
                               .a_line = from_across.step * from.strides()[2],
                               .a_next = from_down.step * from.strides()[1],
                               .b = weights.at(0, input) + (tap.h * weights.kernel().w + tap.w) * pixel,
                               .b_panel = 0,
                               .b_row = weights.kernel().h * weights.kernel().w * pixel,
                               .b_next = 0,
                               .y = sums + (row * width + across.first) * pixel,
                               .y_panel = 0,
                               .y_row = across.step * pixel,
                               .y_next = down.step * width * pixel,
                               .add = true});
      }
    }
  }
}

void TapConv::run(const ConvArrays& a) {
  if (layer_.pass == ConvPass::outputs) return add_up({Side::y, a.x, a.weight, a.bias, a.y});
  if (layer_.pass == ConvPass::input_gradient) return add_up({Side::x, a.y, a.weight, std::nullopt, a.grad_x});
  sum_weight(a.x, a.y, a.grad_weight);
  sum_bias(a);
}

void TapConv::sum_weight(const Array& x, const Array& grad_y, const Array& grad_weight) const {
  const std::vector<Tap> seeing = taps();
  if (seeing.size() < rows_.size() * columns_.size()) backend({}).fill(grad_weight, 0);
  for (const Tap& tap : seeing) {
    const Array gradient = grad_weight.select(3, tap.w).select(2, tap.h);  // (out channels, in channels)
    const Array product = gradient.is_contiguous() ? gradient : Array::empty(gradient.shape());
    multiply(as_matrix(seen(grad_y, Side::y, tap)).transpose(0, 1), as_matrix(seen(x, Side::x, tap)), std::nullopt,
             product);
    if (!gradient.is_contiguous()) backend({}).copy(product, gradient);
  }
}

}  // namespace tandem::cpu

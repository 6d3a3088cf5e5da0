// Convolution. oneDNN does it, except where our own code is faster: tiles with fewer multiplications
// (cook_toom_conv.h, and one_channel_conv.h for one input), products of matrices (tap_conv.h), and
// sums of rows for few output channels (direct_conv.h) or a kernel for each channel (depthwise_conv.h). What oneDNN
// does not have goes by the plain method: the windows of each image are laid out as rows of a matrix (im2col), and that
// matrix is multiplied.
#include <tandem/core/cpu/conv/cook_toom_conv.h>
#include <tandem/core/cpu/conv/depthwise_conv.h>
#include <tandem/core/cpu/conv/direct_conv.h>
#include <tandem/core/cpu/conv/one_channel_conv.h>
#include <tandem/core/cpu/conv/tap_conv.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/profile/profile.h>

#include <Eigen/Core>
#include <cstring>

namespace tandem {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Calls f(row, column, pixel) for each element of one image's window matrix that lies inside of the image. `row` is an
// output pixel, `column` a place (kernel h, kernel w) of the kernel, and `pixel` is h * width + w of the input. The
// caller multiplies `column` and `pixel` by a number of channels.
template <class F>
void for_each_window_element(const Shape& x, const Shape& y, const Window& w, F f) {
  for (std::int64_t o = 0; o < y[2] * y[3]; ++o)
    for (std::int64_t k = 0; k < w.kernel.h * w.kernel.w; ++k) {
      const std::int64_t h = o / y[3] * w.stride.h - w.padding.h + k / w.kernel.w * w.dilation.h;
      const std::int64_t v = o % y[3] * w.stride.w - w.padding.w + k % w.kernel.w * w.dilation.w;
      if (0 <= h && h < x[2] && 0 <= v && v < x[3]) f(o, k, h * x[3] + v);
    }
}

// The channels of group `g`: the first input channel and how many there are, and the same for the outputs.
struct ChannelGroup {
  std::int64_t first_in, in, first_out, out;
  ChannelGroup(std::int64_t g, std::int64_t groups, std::int64_t channels_in, std::int64_t channels_out)
      : first_in(g * (channels_in / groups)),
        in(channels_in / groups),
        first_out(g * (channels_out / groups)),
        out(channels_out / groups) {}
};

template <class T>
Matrix<T> windows_of(const T* image, const Shape& x, const Shape& y, const Window& w, const ChannelGroup& group) {
  Matrix<T> rows = Matrix<T>::Zero(y[2] * y[3], w.kernel.h * w.kernel.w * group.in);
  for_each_window_element(x, y, w, [&](std::int64_t row, std::int64_t k, std::int64_t pixel) {
    std::copy_n(image + pixel * x[1] + group.first_in, group.in, &rows(row, k * group.in));
  });
  return rows;
}

// (O, KH, KW, C / groups) -> (O, KH * KW * C / groups): the weight as a matrix that fits windows_of's.
template <class T>
Eigen::Map<const Matrix<T>> as_matrix(const Array& weight_khwc) {
  return {weight_khwc.data<T>(), weight_khwc.dim(0), weight_khwc.numel() / weight_khwc.dim(0)};
}

// The dtype in which the plain method computes.
DType plain_dtype(const Array& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// The dtype of the kernels that compute a layer whose arrays have `dtype`: f32 for f16, for which oneDNN has no
// kernels, and for bf16 where f32 is faster. Tiles and the kernels for one channel or for each channel read 16-bit
// images themselves. For other ways, arrays are converted, which pays where each number is multiplied often enough
// (tried on an Intel Xeon without AMX).
DType kernel_dtype(DType dtype, const Window& w, const Shape& x, const Shape& y) {
  if (dtype == DType::f16) return DType::f32;
  if (dtype != DType::bf16) return dtype;
  // Where the number of bf16 inputs is odd, oneDNN multiplies numbers of the next pixel by zero, which spreads an Inf.
  if (math_mode().exact_convolutions && x[1] / w.groups % 2 != 0) return DType::f32;
  if (onednn::has_fast_bf16()) return dtype;
  constexpr std::int64_t enough = 18;
  const std::int64_t taps = w.kernel.h * w.kernel.w;
  const bool pays = x[1] / w.groups * taps >= enough && y[1] / w.groups * taps >= enough * w.stride.h * w.stride.w;
  return pays || !onednn::has_avx512() ? DType::f32 : dtype;
}

template <class F>
void dispatch_plain(DType dtype, F f) {
  if (dtype == DType::f64) f(double{});
  else f(float{});
}

template <class T>
Eigen::Map<Matrix<T>> image_matrix(const Array& a, std::int64_t n) {  // (H * W, C) of one image
  const std::int64_t pixels = a.dim(2) * a.dim(3);
  return {a.data<T>() + n * pixels * a.dim(1), pixels, a.dim(1)};
}

// Says in a trace which kernel computes a pass: tiles, or another one and why not tiles.
void note_kernel(const char* pass, const cpu::CookToomChoice& tiles, const std::string& other = "") {
  ProfileRange* const range = detail::current_range;
  if (!range || !range->is_recorded()) return;
  if (tiles.pays()) return range->note(pass, tiles.describe());
  range->note(pass, tiles.rows ? other + "; " + tiles.describe() : other);
}
constexpr const char *forward_pass = "kernel", *input_pass = "kernel of the input's gradient",
                     *weight_pass = "kernel of the weight's gradient",
                     *one_channel_kernel = "tiles of F(4, 5) along rows, for one channel",
                     *depthwise_kernel = "sums along rows, for a kernel for each channel",
                     *windows_kernel = "product with windows: oneDNN has no kernel for this layer, or a slow one";

// The share of the kernel's products that oneDNN computes. It leaves out rows of padding, and columns where the kernel
// is dilated.
double onednn_share(const cpu::ConvTaps& taps, const Window& window) {
  return window.dilation.w > 1 ? taps.seen_share() : taps.seen_row_share();
}
// How many times as long oneDNN takes for outputs and the gradient of the weight as its products would let one expect.
// It reads the weight for each row of outputs, and waits for a weight that is larger than a cache (1 MiB) where rows
// are shorter than 7 pixels: tried with 64 to 512 channels on an Intel Xeon. Its kernels for the gradient of the input
// do not wait.
double waiting(const Window& window, const Shape& x, const Shape& y) {
  const std::int64_t weight = window.kernel.h * window.kernel.w * x[1] * y[1], width = y[3];
  return weight > 1 << 18 && width < 7 ? 7 / static_cast<double>(width) : 1;
}

// Where tiles are the fastest way to the outputs or a gradient, pays() is true. The dtype is that of the image.
cpu::CookToomChoice tiles_for_outputs(DType image, const Window& window, const Shape& x, const Shape& y) {
  const DType dtype = kernel_dtype(image, window, x, y);
  const cpu::CookToomConv tiles(window, x, y);
  if (!tiles.can(dtype) || cpu::OneChannelConv(window, x, y).pays(dtype) ||
      cpu::DirectConv(window, x, y).beats_tiles(dtype))
    return {};
  const cpu::ConvTaps taps(window, x, y);
  return tiles.choose_forward(
      dtype, taps.pay_for_outputs(dtype) ? taps.seen_share() : waiting(window, x, y) * onednn_share(taps, window));
}
cpu::CookToomChoice tiles_for_input(DType image, const Window& window, const Shape& x, const Shape& y) {
  const DType dtype = kernel_dtype(image, window, x, y);
  const cpu::CookToomConv tiles(window, x, y);
  if (!tiles.can(dtype) || cpu::DirectConv(window, x, y).pays_for_input(dtype)) return {};
  const cpu::ConvTaps taps(window, x, y);
  return tiles.choose_grad_input(dtype, taps.pay_for_input(dtype) ? taps.seen_share() : onednn_share(taps, window));
}
cpu::CookToomChoice tiles_for_weight(const Array& x, const Array& grad_y, const Window& window) {
  const DType dtype = kernel_dtype(x.dtype(), window, x.shape(), grad_y.shape());
  const cpu::CookToomConv tiles(window, x.shape(), grad_y.shape());
  if (grad_y.dtype() != x.dtype() || !tiles.can(dtype) ||
      cpu::OneChannelConv(window, x.shape(), grad_y.shape()).pays(dtype))
    return {};
  const cpu::ConvTaps taps(window, x.shape(), grad_y.shape());
  return tiles.choose_grad_weight(dtype, taps.pay_for_weight(dtype)
                                             ? taps.seen_share()
                                             : waiting(window, x.shape(), grad_y.shape()) * onednn_share(taps, window));
}

// Sums (N, C, H, W) to (C).
void sum_pixels(const Array& image, const Array& sums) {
  const Array pixels = image.permute({0, 2, 3, 1}).reshape({-1, image.dim(1)}).to(DType::f32);
  const Array row = Array::empty({1, sums.numel()});
  backend({}).reduce(Reduction::sum, pixels, row);
  backend({}).copy(row.reshape(sums.shape()), sums);
}

}  // namespace

void CpuBackend::conv2d(const Array& x, const Array& weight, const std::optional<Array>& bias, const Window& window,
                        const Array& y) {
  const cpu::CookToomChoice best = tiles_for_outputs(x.dtype(), window, x.shape(), y.shape());
  if (best.pays()) {
    note_kernel(forward_pass, best);
    return cpu::CookToomConv(window, x.shape(), y.shape()).forward(best, x, weight, bias, y);
  }
  const cpu::OneChannelConv one_channel(window, x.shape(), y.shape());
  if (one_channel.pays(x.dtype())) {
    note_kernel(forward_pass, best, one_channel_kernel);
    return one_channel.forward(x, weight, bias, y);
  }
  const cpu::DepthwiseConv depthwise(window, x.shape(), y.shape());
  if (depthwise.pays(x.dtype())) {
    note_kernel(forward_pass, best, depthwise_kernel);
    return depthwise.forward(x, weight, bias, y);
  }
  if (const DType dtype = kernel_dtype(x.dtype(), window, x.shape(), y.shape()); dtype != x.dtype()) {
    const Array out = Array::empty_channels_last(y.shape(), dtype);
    const auto b = bias ? std::optional(bias->to(dtype)) : std::nullopt;
    conv2d(x.to(dtype), weight.to(dtype), b, window, out);
    return copy(out, y);
  }
  const cpu::DirectConv direct(window, x.shape(), y.shape());
  if (direct.pays(x.dtype())) {
    note_kernel(forward_pass, best, "sums of rows, for few outputs");
    return direct.forward(x, weight, bias, y);
  }
  const cpu::ConvTaps taps(window, x.shape(), y.shape());
  if (!taps.pay_for_outputs(x.dtype()) && onednn::conv2d(x, weight, bias, window, y))
    return note_kernel(forward_pass, best, "oneDNN");
  if (taps.can(x.dtype())) {
    note_kernel(forward_pass, best, "a product for each tap");
    return taps.forward(x, weight, bias, y);
  }
  note_kernel(forward_pass, best, windows_kernel);
  const DType dtype = plain_dtype(x);
  const Array in = x.to(dtype), w = weight.to(dtype).permute({0, 2, 3, 1}).contiguous();
  const Array out = y.dtype() == dtype ? y : Array::empty_channels_last(y.shape(), dtype);
  const Array b = bias ? bias->to(dtype).contiguous() : Array();
  dispatch_plain(dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t n = 0; n < x.dim(0); ++n) {
      auto result = image_matrix<T>(out, n);
      for (std::int64_t g = 0; g < window.groups; ++g) {
        const ChannelGroup group(g, window.groups, x.dim(1), y.dim(1));
        result.middleCols(group.first_out, group.out).noalias() =
            windows_of<T>(image_matrix<T>(in, n).data(), x.shape(), y.shape(), window, group) *
            as_matrix<T>(w).middleRows(group.first_out, group.out).transpose();
      }
      if (bias) result.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(b.data<T>(), b.numel());
    }
  });
  if (y.dtype() != dtype) copy(out, y);
}

void CpuBackend::conv2d_grad_input(const Array& grad_y, const Array& weight, const Window& window,
                                   const Array& grad_x) {
  const cpu::CookToomChoice best = tiles_for_input(grad_y.dtype(), window, grad_x.shape(), grad_y.shape());
  if (best.pays()) {
    note_kernel(input_pass, best);
    return cpu::CookToomConv(window, grad_x.shape(), grad_y.shape()).grad_input(best, grad_y, weight, grad_x);
  }
  const cpu::DepthwiseConv depthwise(window, grad_x.shape(), grad_y.shape());
  if (depthwise.pays_for_input(grad_y.dtype())) {
    note_kernel(input_pass, best, depthwise_kernel);
    return depthwise.grad_input(grad_y, weight, grad_x);
  }
  if (const DType dtype = kernel_dtype(grad_y.dtype(), window, grad_x.shape(), grad_y.shape());
      dtype != grad_y.dtype()) {
    const Array out = Array::empty_channels_last(grad_x.shape(), dtype);
    conv2d_grad_input(grad_y.to(dtype), weight.to(dtype), window, out);
    return copy(out, grad_x);
  }
  const cpu::DirectConv direct(window, grad_x.shape(), grad_y.shape());
  if (direct.pays_for_input(grad_y.dtype())) {
    note_kernel(input_pass, best, "sums of rows, for few outputs");
    return direct.grad_input(grad_y, weight, grad_x);
  }
  const cpu::ConvTaps taps(window, grad_x.shape(), grad_y.shape());
  if (!taps.pay_for_input(grad_y.dtype()) && onednn::conv2d_grad_input(grad_y, weight, window, grad_x))
    return note_kernel(input_pass, best, "oneDNN");
  if (taps.can(grad_y.dtype())) {
    note_kernel(input_pass, best, "a product for each tap");
    return taps.grad_input(grad_y, weight, grad_x);
  }
  note_kernel(input_pass, best, windows_kernel);
  const DType dtype = plain_dtype(grad_y);
  const Array gy = grad_y.to(dtype), w = weight.to(dtype).permute({0, 2, 3, 1}).contiguous();
  const Array gx = grad_x.dtype() == dtype ? grad_x : Array::empty_channels_last(grad_x.shape(), dtype);
  std::memset(gx.raw(), 0, gx.bytes());
  dispatch_plain(dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t n = 0; n < grad_x.dim(0); ++n) {
      auto image = image_matrix<T>(gx, n);
      for (std::int64_t g = 0; g < window.groups; ++g) {
        const ChannelGroup group(g, window.groups, grad_x.dim(1), grad_y.dim(1));
        const Matrix<T> rows = image_matrix<T>(gy, n).middleCols(group.first_out, group.out) *
                               as_matrix<T>(w).middleRows(group.first_out, group.out);
        for_each_window_element(
            grad_x.shape(), grad_y.shape(), window, [&](std::int64_t row, std::int64_t k, std::int64_t pixel) {
              image.block(pixel, group.first_in, 1, group.in) += rows.block(row, k * group.in, 1, group.in);
            });
      }
    }
  });
  if (grad_x.dtype() != dtype) copy(gx, grad_x);
}

void CpuBackend::conv2d_grad_weight(const Array& x, const Array& grad_y, const Window& window, const Array& grad_weight,
                                    const std::optional<Array>& grad_bias) {
  const auto by_f32 = [&] {
    const Array weight_sum = Array::empty(grad_weight.shape());
    const auto bias_sum = grad_bias ? std::optional(Array::empty(grad_bias->shape())) : std::nullopt;
    conv2d_grad_weight(x.to(DType::f32), grad_y.to(DType::f32), window, weight_sum, bias_sum);
    copy(weight_sum, grad_weight);
    if (grad_bias) copy(*bias_sum, *grad_bias);
  };
  const auto sum_bias = [&] {
    if (grad_bias) sum_pixels(grad_y, *grad_bias);
  };
  const cpu::CookToomChoice best = tiles_for_weight(x, grad_y, window);
  if (best.pays()) {
    note_kernel(weight_pass, best);
    cpu::CookToomConv(window, x.shape(), grad_y.shape()).grad_weight(best, x, grad_y, grad_weight);
    return sum_bias();
  }
  const cpu::OneChannelConv one_channel(window, x.shape(), grad_y.shape());
  if (x.dtype() == grad_y.dtype() && one_channel.pays(x.dtype())) {
    note_kernel(weight_pass, best, one_channel_kernel);
    return one_channel.grad_weight(x, grad_y, grad_weight, grad_bias);
  }
  const cpu::DepthwiseConv depthwise(window, x.shape(), grad_y.shape());
  if (x.dtype() == grad_y.dtype() && depthwise.pays_for_weight(x.dtype())) {
    note_kernel(weight_pass, best, depthwise_kernel);
    depthwise.grad_weight(x, grad_y, grad_weight);
    return sum_bias();
  }
  if (kernel_dtype(x.dtype(), window, x.shape(), grad_y.shape()) != x.dtype()) return by_f32();
  const cpu::ConvTaps taps(window, x.shape(), grad_y.shape());
  if (!taps.pay_for_weight(x.dtype())) {
    if (x.dtype() == DType::bf16 && !onednn::can_sum_bf16(x, window)) return by_f32();
    if (onednn::conv2d_grad_weight(x, grad_y, window, grad_weight, grad_bias))
      return note_kernel(weight_pass, best, "oneDNN");
  }
  if (taps.can(x.dtype())) {
    note_kernel(weight_pass, best, "a product for each tap");
    taps.grad_weight(x, grad_y, grad_weight);
    return sum_bias();
  }
  note_kernel(weight_pass, best, windows_kernel);
  const DType dtype = plain_dtype(x);
  const Array in = x.to(dtype), gy = grad_y.to(dtype);
  const Array sum = Array::empty({grad_weight.dim(0), window.kernel.h, window.kernel.w, grad_weight.dim(1)}, dtype);
  const Array bias_sum = Array::empty({grad_weight.dim(0)}, dtype);
  dispatch_plain(dtype, [&](auto type) {
    using T = decltype(type);
    Eigen::Map<Matrix<T>> weight_total(sum.data<T>(), sum.dim(0), sum.numel() / sum.dim(0));
    Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>> bias_total(bias_sum.data<T>(), bias_sum.numel());
    weight_total.setZero();
    bias_total.setZero();
    for (std::int64_t n = 0; n < x.dim(0); ++n) {
      const auto grad = image_matrix<T>(gy, n);
      for (std::int64_t g = 0; g < window.groups; ++g) {
        const ChannelGroup group(g, window.groups, x.dim(1), grad_y.dim(1));
        weight_total.middleRows(group.first_out, group.out).noalias() +=
            grad.middleCols(group.first_out, group.out).transpose() *
            windows_of<T>(image_matrix<T>(in, n).data(), x.shape(), grad_y.shape(), window, group);
      }
      bias_total += grad.colwise().sum();
    }
  });
  copy(sum.permute({0, 3, 1, 2}), grad_weight);
  if (grad_bias) copy(bias_sum, *grad_bias);
}

bool CpuBackend::conv2d_grads(const Array& x, const Array& grad_y, const Array& weight, const Window& window, bool add,
                              const Array& grad_x, const Array& grad_weight, const std::optional<Array>& grad_bias) {
  cpu::CookToomChoice best;
  if (tiles_for_weight(x, grad_y, window).pays())
    best = tiles_for_input(grad_y.dtype(), window, x.shape(), grad_y.shape());
  if (!best.pays() || !best.serves_both_gradients) return false;
  for (const char* pass : {input_pass, weight_pass}) note_kernel(pass, best);
  cpu::CookToomConv(window, x.shape(), grad_y.shape()).grads(best, x, grad_y, weight, add, grad_x, grad_weight);
  if (grad_bias) sum_pixels(grad_y, *grad_bias);
  return true;
}

}  // namespace tandem

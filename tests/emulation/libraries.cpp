// Emulates cuBLAS and cuDNN with the CPU's operations. The arguments are read as those libraries read them.
#include "libraries.h"
#include "streams.h"
#include "work_log.h"

#include <tandem/core/cuda/cublas.h>
#include <tandem/core/cuda/cudnn.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace emulation {

Libraries& libraries() {
  static Libraries instance;
  return instance;
}

}  // namespace emulation

namespace tandem::cuda {

namespace {

// The matrix that cuBLAS sees in the memory of `a` when it is described by `m`.
Array read_as(const Array& a, const ColumnMajor& m) {
  const Array stored(a.storage(), {m.rows, m.columns}, {1, m.leading}, a.offset(), a.dtype());
  return m.transposed ? stored.transpose(0, 1) : stored;
}

// The array `a` as the CPU's operations take it. The result keeps no memory alive, like a pointer, because a recorded
// graph may hold it.
Array on_host(const Array& a) {
  const auto memory = std::make_shared<Storage>(a.storage()->data(), a.storage()->bytes(), Device{}, [] {});
  return Array(memory, a.shape(), a.strides(), a.offset(), a.dtype());
}

void in_stream(std::function<void()> work) { emulation::submit_work(current_stream(), std::move(work)); }

// The numbers of `a`, which is f32, as the tensor cores read them in TF32: with 10 bits of mantissa.
Array as_tf32(const Array& a) {
  const auto values = a.to_vector<float>();
  std::vector<float> rounded;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    rounded.push_back(std::isfinite(value) ? std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu) : value);
  }
  return Array::from(rounded, a.shape());
}

void expect_aligned(const Array& a) {
  TANDEM_CHECK(alignment_of(a.raw()) >= 16, "emulated library: ", a.raw(), " is not aligned to 16 bytes");
}

}  // namespace

bool multiply(const Array& a, const Array& b, const Array* bias, const Array& y) {
  const bool widens = y.dtype() == DType::f32 && size_of(a.dtype()) == 2;
  TANDEM_CHECK(a.dim(-1) > 0 && (a.dtype() == y.dtype() || widens) && b.dtype() == a.dtype() && is_floating(y.dtype()),
               "emulated cuBLAS: ", a.dtype(), ' ', a.shape(), " x ", b.dtype(), ' ', b.shape());
  const bool adds = bias && emulation::libraries().add_bias;
  if (adds) {
    expect_aligned(*bias);
    TANDEM_CHECK(bias->dtype() == y.dtype() && bias->is_contiguous(), "emulated cuBLAS: bias does not fit");
  }
  const Array added = adds ? on_host(*bias) : Array();
  const std::int64_t batch = y.ndim() == 3 ? y.dim(0) : 1;
  TANDEM_CHECK(batch <= 65535, "emulated cuBLAS: a batch of ", batch);
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto matrix = [&](const Array& m) { return m.ndim() == 3 ? m.select(0, i) : m; };
    const Array left = on_host(read_as(matrix(b), *transpose_of(b)));
    const Array right = on_host(read_as(matrix(a), *transpose_of(a)));
    const Array out = on_host(read_as(matrix(y), {y.dim(-1), y.dim(-2), y.dim(-1), false}));
    emulation::note_work(current_stream(), "cuBLAS");
    const bool tf32 = math_mode().tf32_matmul && a.dtype() == DType::f32;
    in_stream([=] {
      Array product = tf32     ? ops::matmul(as_tf32(left), as_tf32(right))
                      : widens ? ops::matmul(left.to(DType::f32), right.to(DType::f32))
                               : ops::matmul(left, right);  // y'
      if (added.defined()) product = ops::zip(functors::Add{}, product, added.reshape({product.dim(0), 1}));
      Array(out).copy_from(product);
    });
  }
  return !bias || adds;
}

bool multiply_with_row_sums(const Array& a, const Array& b, const Array& y, const Array& row_sums) {
  if (!emulation::libraries().sum_rows || a.dtype() == DType::f64) return false;
  expect_aligned(row_sums);
  TANDEM_CHECK(row_sums.dtype() == y.dtype() && row_sums.is_contiguous() && row_sums.shape() == Shape{a.dim(0)},
               "emulated cuBLAS: row_sums does not fit");
  multiply(a, b, nullptr, y);
  // The rows of a are the columns of the matrix B that cuBLAS sees.
  const Array columns = on_host(read_as(a, *transpose_of(a))), sums = on_host(row_sums);
  in_stream([=] { Array(sums).copy_from(ops::reduce(Reduction::sum, columns.to(DType::f32), {0})); });
  return true;
}

ConvolutionOutcome convolve(Convolution kind, ImageFormat format, const ConvolutionArrays& arrays, const Window& window,
                            const Array* bias, bool adds) {
  const auto& libraries = emulation::libraries();
  if (format == ImageFormat::nhwc ? !libraries.channels_last : !libraries.row_major)
    return {false, false, "emulated cuDNN: not supported"};
  TANDEM_CHECK(format == ImageFormat::nchw || arrays.x.dtype() != DType::f64, "emulated cuDNN: f64 in channels last");
  for (const Array* a : {&arrays.x, &arrays.weight, &arrays.y}) {
    TANDEM_CHECK(a->dtype() == arrays.x.dtype() && is_dense(format, *a), "emulated cuDNN: dtypes or formats differ");
    expect_aligned(*a);
  }
  TANDEM_CHECK(!adds || kind == Convolution::grad_input, "emulated cuDNN: adds to another result than grad_input's");
  const bool adds_bias = bias && libraries.add_bias;
  if (kind == Convolution::forward && adds_bias) {
    expect_aligned(*bias);
    TANDEM_CHECK(bias->dtype() == arrays.y.dtype() && bias->is_contiguous(), "emulated cuDNN: bias does not fit");
  }
  emulation::note_work(current_stream(), "cuDNN");
  const Array x = on_host(arrays.x), weight = on_host(arrays.weight), y = on_host(arrays.y);
  const auto added = adds_bias ? std::optional(on_host(*bias)) : std::nullopt;
  const bool tf32 = math_mode().tf32_conv && x.dtype() == DType::f32;
  in_stream([=] {
    const auto read = [&](const Array& a) { return tf32 ? as_tf32(a) : a; };
    // Writes results into the memory that was given. The strides are those of the format: the strides of a view do not
    // tell the order of memory where a dimension has size 1.
    const auto write = [&](const Array& to, const Array& result) {
      Array(to.storage(), to.shape(), dense_strides(format, to.shape()), to.offset(), to.dtype()).copy_from(result);
    };
    switch (kind) {
      case Convolution::forward: write(y, ops::conv2d(read(x), read(weight), added, window)); break;
      case Convolution::grad_input: {
        const Array result = ops::conv2d_grad_input(read(y), read(weight), window, x.shape());
        Array to = x;
        if (adds) ops::add_(to, result);
        else write(x, result);
        break;
      }
      case Convolution::grad_weight:
        write(weight, ops::conv2d_grad_weight(read(x), read(y), window, weight.dim(0), false, weight.dtype()).weight);
        break;
    }
  });
  return {true, adds_bias, ""};
}

}  // namespace tandem::cuda

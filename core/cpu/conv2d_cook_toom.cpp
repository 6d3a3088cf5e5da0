#include <tandem/core/cpu/conv2d_cook_toom.h>
#include <tandem/core/cpu/cook_toom_kernels.h>
#include <tandem/core/cpu/cook_toom_tiles.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/device/math_mode.h>
#include <tandem/core/ops/create.h>

#include <algorithm>
#include <vector>

namespace tandem::cpu {

namespace {

// How a convolution's rows of tiles fall into blocks, and those to threads.
struct Blocks {
  std::int64_t tile_rows, block, workers;

  // What lies between the transforms of a block, for one place of the rows, is to stay in the second-level cache. Where
  // the weight does not fit into it, which every block reads as a whole, blocks are larger, so that fewer read it. The
  // sizes were tried on an AMD EPYC (Zen 4, 1 MiB); half and twice are as fast.
  Blocks(const Tiling& tiling, const PlaceMatrices& matrices) : tile_rows(tiling.tile_rows()) {
    const std::int64_t tile = 4 * tiling.rows.scheme->n() * (padded(matrices.inputs) + padded(matrices.outputs));
    const bool fits = tiling.places() * matrices.place_step() * 4 <= 512 << 10;
    const std::int64_t tiles = std::max<std::int64_t>((fits ? 64 << 10 : 2 << 20) / tile, 16);
    const std::int64_t threads = omp_get_max_threads();
    block = std::clamp<std::int64_t>(tiles / tiling.columns.tiles, 1, (tile_rows + threads - 1) / threads);
    workers = std::min(threads, (tile_rows + block - 1) / block);
  }

  // Calls f(worker, first, last) for the rows of tiles of each block. A worker is a thread, and takes its blocks one
  // after the other.
  template <class F>
  void for_each(std::int64_t elements, F f) const {
    const std::int64_t blocks = (tile_rows + block - 1) / block;
    parallel_for(workers, elements, [&](std::int64_t worker) {
      for (std::int64_t b = blocks * worker / workers; b < blocks * (worker + 1) / workers; ++b)
        f(worker, b * block, std::min((b + 1) * block, tile_rows));
    });
  }
};

// `weight`: what weight_to_places gives.
void convolve(const Tiling& tiling, const Array& x, const Array& weight, const float* bias, const Array& y) {
  const PlaceMatrices matrices{x.dim(1), y.dim(1)};
  const Blocks blocks(tiling, matrices);
  const ToTiles input(tiling, ToTiles::Kind::input, x, blocks.block);
  const FromTiles output(tiling, y, blocks.block);
  const Array memory = Array::empty({blocks.workers, spread(input.numbers() + output.numbers())});
  blocks.for_each(x.numel() + y.numel(), [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    ToTiles from = input;
    FromTiles to = output;
    from.use(memory.data<float>() + worker * memory.dim(1));
    to.use(memory.data<float>() + worker * memory.dim(1) + input.numbers());
    const auto strips = tiling.strips(first, last);
    from.along_rows(strips);
    const std::int64_t down = tiling.rows.scheme->n();  // places of a column of a tile
    for (std::int64_t column = 0; column < tiling.columns.scheme->n(); ++column) {
      from.along_columns(strips, column);
      multiply_tiles<false>({.count = down,
                             .rows = (last - first) * tiling.columns.tiles,
                             .inner = matrices.inputs,
                             .columns = padded(matrices.outputs),
                             .a = from.tiles(),
                             .a_line = padded(matrices.inputs),
                             .a_next = from.place_step(),
                             .b = weight.data<float>() + column * down * matrices.place_step(),
                             .b_panel = matrices.inputs * matrices.width(),
                             .b_row = matrices.width(),
                             .b_next = matrices.place_step(),
                             .y = to.products(),
                             .y_row = padded(matrices.outputs),
                             .y_next = to.place_step(),
                             .add = false});
      to.along_columns(strips, column);
    }
    to.along_rows(strips, bias);
  });
}

Extent size_of_image(const Shape& image) { return {image[2], image[3]}; }

Array f32(const Array& a) { return a.to(DType::f32).contiguous(); }

}  // namespace

CookToomChoice CookToomConv::forward_choice() const {
  return choose_cook_toom(window_.kernel, window_.dilation, size_of_image(y_), x_[1], y_[1]);
}
CookToomChoice CookToomConv::input_choice() const {
  return choose_cook_toom(window_.kernel, window_.dilation, size_of_image(x_), y_[1], x_[1]);
}

bool CookToomConv::pays(const CookToomChoice& tiles, const Shape& tiled, std::int64_t inputs, std::int64_t outputs,
                        double share, DType dtype) const {
  if (dtype == DType::f64 || window_.stride != Extent(1) || window_.groups != 1) return false;
  return tiles.rows && !math_mode().exact_convolutions &&
         tiles.cycles < direct_cycles(window_.kernel, size_of_image(tiled), inputs, outputs, share, dtype);
}

void CookToomConv::forward(const CookToomChoice& tiles, const Array& x, const Array& weight,
                           const std::optional<Array>& bias, const Array& y) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling{{tiles.rows, y_[2], dilation.h, padding.h}, {tiles.columns, y_[3], dilation.w, padding.w}, x_[0]};
  Array biases;
  if (bias) {
    biases = ops::zeros({padded(y_[1])});
    backend({}).copy(*bias, biases.narrow(0, 0, y_[1]));
  }
  convolve(tiling, x, weight_to_places(tiling, {x_[1], y_[1]}, f32(weight), false),
           bias ? biases.data<float>() : nullptr, y);
}

// The gradient of the input is the convolution of the outputs' gradient with the kernel turned by half a turn.
void CookToomConv::grad_input(const CookToomChoice& tiles, const Array& grad_y, const Array& weight,
                              const Array& grad_x) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling{{tiles.rows, x_[2], dilation.h, (kernel.h - 1) * dilation.h - padding.h},
                      {tiles.columns, x_[3], dilation.w, (kernel.w - 1) * dilation.w - padding.w},
                      x_[0]};
  convolve(tiling, grad_y, weight_to_places(tiling, {y_[1], x_[1]}, f32(weight), true), nullptr, grad_x);
}

void CookToomConv::grad_weight(const CookToomChoice& tiles, const Array& x, const Array& grad_y,
                               const Array& grad_weight) const {
  const auto& [kernel, stride, padding, dilation, groups] = window_;
  const Tiling tiling{{tiles.rows, y_[2], dilation.h, padding.h}, {tiles.columns, y_[3], dilation.w, padding.w}, x_[0]};
  const PlaceMatrices matrices{x_[1], y_[1]};
  const std::int64_t inputs = x_[1], outputs = padded(y_[1]), place_step = spread(inputs * outputs);
  const Blocks blocks(tiling, matrices);
  const ToTiles input(tiling, ToTiles::Kind::input, x, blocks.block);
  const ToTiles output(tiling, ToTiles::Kind::output_grad, grad_y, blocks.block);
  const Array memory = Array::empty({blocks.workers, spread(input.numbers() + output.numbers())});
  // Each worker adds up the products of a block first, and then adds those to its sums. Two levels keep errors small.
  const Array sums = Array::empty({blocks.workers, tiling.places() * place_step});
  std::vector<char> begun(static_cast<std::size_t>(blocks.workers));
  blocks.for_each(x.numel() + grad_y.numel(), [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    ToTiles in = input, out = output;
    in.use(memory.data<float>() + worker * memory.dim(1));
    out.use(memory.data<float>() + worker * memory.dim(1) + input.numbers());
    const auto strips = tiling.strips(first, last);
    in.along_rows(strips);
    out.along_rows(strips);
    const std::int64_t down = tiling.rows.scheme->n();  // places of a column of a tile
    char& added = begun[static_cast<std::size_t>(worker)];
    for (std::int64_t column = 0; column < tiling.columns.scheme->n(); ++column) {
      in.along_columns(strips, column);
      out.along_columns(strips, column);
      multiply_tiles<true>({.count = down,
                            .rows = inputs,
                            .inner = (last - first) * tiling.columns.tiles,
                            .columns = outputs,
                            .a = in.tiles(),
                            .a_line = padded(inputs),
                            .a_next = in.place_step(),
                            .b = out.tiles(),
                            .b_panel = panel,
                            .b_row = outputs,
                            .b_next = out.place_step(),
                            .y = sums.data<float>() + worker * sums.dim(1) + column * down * place_step,
                            .y_row = outputs,
                            .y_next = place_step,
                            .add = added != 0});
    }
    added = 1;
  });
  for (std::int64_t w = 1; w < blocks.workers; ++w)
    backend({}).zip(functors::Add{}, sums.select(0, 0), sums.select(0, w), sums.select(0, 0));
  backend({}).copy(weight_from_places(tiling, inputs, y_[1], sums.data<float>(), place_step), grad_weight);
}

}  // namespace tandem::cpu

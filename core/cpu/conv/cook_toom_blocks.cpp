#include <tandem/core/cpu/conv/cook_toom_orders.h>
#include <tandem/core/device/backend.h>

#include <utility>
#include <vector>

namespace tandem::cpu {

void TilePass::by_blocks() const {
  const std::int64_t down = tiling.rows.scheme->n(), across = tiling.columns.scheme->n();
  const std::int64_t in = padded(x.dim(1)), out = padded(outputs);
  const PlaceMatrices matrices(tiling, x.dim(1), outputs);
  Array weight, taps_memory;
  const auto all_taps = [&](const Kernels& kernels) {
    TapPanels taps(kernels, {0, outputs}, {0, x.dim(1)});
    taps_memory = Array::empty({taps.numbers()});
    taps.use(taps_memory.data<float>());
    return taps;
  };
  if (convolution) {
    weight = Array::empty({across, matrices.numbers()});
    const TapPanels taps = all_taps(convolution->kernels);
    parallel_for(matrices.panels(), weight.numel(), [&](std::int64_t p) {
      taps.read(p);
      for (std::int64_t column = 0; column < across; ++column)
        matrices.from_taps(taps, 0, column, p, weight.data<float>() + column * weight.dim(1));
    });
  }

  const Blocks blocks(0, tiling.tile_rows(), rows_of_block(tiling, in + out));
  const std::int64_t tiles_in_block = blocks.block * tiling.columns.tiles;
  const std::int64_t in_step = spread(tiles_in_block * in), out_step = spread(tiles_in_block * out);
  const ToTiles input(tiling, ToTiles::Kind::input, x, blocks.block);
  std::int64_t numbers = input.numbers() + down * in_step;
  std::optional<FromTiles> result;
  if (convolution) {
    result.emplace(tiling, convolution->y, blocks.block);
    numbers += result->numbers();
  }
  // Each worker adds up the products of a block first, and then adds those to its sums. Two levels keep errors small.
  std::optional<ToTiles> gradient;
  Array sums;
  std::vector<char> begun(static_cast<std::size_t>(blocks.workers));
  if (kernel_sums) {
    gradient.emplace(tiling, ToTiles::Kind::output_grad, kernel_sums->grad_y, blocks.block);
    numbers += gradient->numbers() + down * out_step;
    sums = Array::empty({blocks.workers, across * matrices.numbers()});
  }
  const Array memory = Array::empty({blocks.workers, spread(numbers)});

  blocks.for_each(x.numel(), [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    float* next = memory.data<float>() + worker * memory.dim(1);
    const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
    const auto strips = tiling.strips(first, last);
    const std::int64_t tiles = (last - first) * tiling.columns.tiles;
    ToTiles from = input;
    from.use(take(from.numbers()));
    from.along_rows(strips);
    float* const in_tiles = take(down * in_step);
    std::optional<FromTiles> to = result;
    if (to) to->use(take(to->numbers()));
    std::optional<ToTiles> other = gradient;
    float* out_tiles = nullptr;
    if (other) {
      other->use(take(other->numbers()));
      other->along_rows(strips);
      out_tiles = take(down * out_step);
    }
    char& added = begun[static_cast<std::size_t>(worker)];
    for (std::int64_t column = 0; column < across; ++column) {
      from.along_columns(strips, column, in_tiles, in_step);
      const TilesInColumn seen{in_tiles, tiles, in, in_step};
      if (to) {
        matrices.multiply(seen, weight.data<float>() + column * weight.dim(1), false, *to, column);
        to->along_columns(strips, column);
      }
      if (other) {
        other->along_columns(strips, column, out_tiles, out_step);
        float* const places = sums.data<float>() + worker * sums.dim(1) + column * matrices.numbers();
        matrices.sum(seen, {out_tiles, tiles, out, out_step}, added != 0, places);
      }
    }
    added = 1;
    if (to) to->along_rows(strips, convolution->added);
  });
  if (!kernel_sums) return;
  const Array total = sums.select(0, 0);
  for (std::int64_t w = 1; w < blocks.workers; ++w) backend({}).zip(functors::Add{}, total, sums.select(0, w), total);
  const TapPanels taps = all_taps(kernel_sums->sums);
  parallel_for(matrices.panels(), total.numel(), [&](std::int64_t p) {
    taps.clear(p);
    for (std::int64_t column = 0; column < across; ++column)
      matrices.to_taps(total.data<float>() + column * matrices.numbers(), 0, column, p, taps);
    taps.write(p);
  });
}

}  // namespace tandem::cpu

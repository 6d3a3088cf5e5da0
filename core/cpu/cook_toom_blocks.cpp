#include <tandem/core/cpu/cook_toom_orders.h>
#include <tandem/core/device/backend.h>

#include <vector>

namespace tandem::cpu {

void convolve_by_blocks(const Tiling& tiling, const Array& x, const KernelTaps& taps, const float* bias,
                        const Array& y) {
  const std::int64_t down = tiling.rows.scheme->n(), inputs = padded(x.dim(1)), outputs = padded(y.dim(1));
  const std::int64_t across = tiling.columns.scheme->n();
  const PlaceMatrices matrices(tiling, x.dim(1), y.dim(1));
  const Array weight = Array::empty({across, matrices.numbers()});
  parallel_for(across * matrices.panels(), weight.numel(), [&](std::int64_t i) {
    const std::int64_t column = i % across, p = i / across;
    matrices.from_taps(taps, {0, 0}, column, p, weight.data<float>() + column * weight.dim(1));
  });

  const Blocks blocks(0, tiling.tile_rows(), rows_of_block(tiling, inputs + outputs));
  const std::int64_t tile_step = spread(blocks.block * tiling.columns.tiles * inputs);
  const ToTiles input(tiling, ToTiles::Kind::input, x, blocks.block);
  const FromTiles output(tiling, y, blocks.block);
  const Array memory = Array::empty({blocks.workers, spread(input.numbers() + output.numbers() + down * tile_step)});
  blocks.for_each(x.numel() + y.numel(), [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    ToTiles from = input;
    FromTiles to = output;
    float* const begin = memory.data<float>() + worker * memory.dim(1);
    float* const tiles = begin + input.numbers() + output.numbers();
    from.use(begin);
    to.use(begin + input.numbers());
    const auto strips = tiling.strips(first, last);
    from.along_rows(strips);
    for (std::int64_t column = 0; column < across; ++column) {
      from.along_columns(strips, column, tiles, tile_step);
      multiply_tiles<false>({.count = down,
                             .rows = (last - first) * tiling.columns.tiles,
                             .inner = matrices.inputs,
                             .columns = outputs,
                             .a = tiles,
                             .a_line = inputs,
                             .a_next = tile_step,
                             .b = weight.data<float>() + column * weight.dim(1),
                             .b_panel = matrices.panel_numbers(),
                             .b_row = matrices.width(),
                             .b_next = matrices.place_step(),
                             .y = to.products(),
                             .y_panel = panel,
                             .y_row = outputs,
                             .y_next = to.place_step(),
                             .add = false});
      to.along_columns(strips, column);
    }
    to.along_rows(strips, bias);
  });
}

void sum_by_blocks(const Tiling& tiling, const Array& x, const Array& grad_y, const KernelTaps& sums) {
  const std::int64_t down = tiling.rows.scheme->n(), inputs = padded(x.dim(1)), outputs = padded(grad_y.dim(1));
  const std::int64_t across = tiling.columns.scheme->n();
  const PlaceMatrices matrices(tiling, x.dim(1), grad_y.dim(1));
  const Blocks blocks(0, tiling.tile_rows(), rows_of_block(tiling, inputs + outputs));
  const std::int64_t in_step = spread(blocks.block * tiling.columns.tiles * inputs);
  const std::int64_t out_step = spread(blocks.block * tiling.columns.tiles * outputs);
  const ToTiles input(tiling, ToTiles::Kind::input, x, blocks.block);
  const ToTiles output(tiling, ToTiles::Kind::output_grad, grad_y, blocks.block);
  const Array memory =
      Array::empty({blocks.workers, spread(input.numbers() + output.numbers() + down * (in_step + out_step))});
  // Each worker adds up the products of a block first, and then adds those to its sums. Two levels keep errors small.
  const Array places = Array::empty({blocks.workers, across * matrices.numbers()});
  std::vector<char> begun(static_cast<std::size_t>(blocks.workers));
  blocks.for_each(x.numel() + grad_y.numel(), [&](std::int64_t worker, std::int64_t first, std::int64_t last) {
    ToTiles in = input, out = output;
    float* const begin = memory.data<float>() + worker * memory.dim(1);
    float* const in_tiles = begin + input.numbers() + output.numbers();
    float* const out_tiles = in_tiles + down * in_step;
    in.use(begin);
    out.use(begin + input.numbers());
    const auto strips = tiling.strips(first, last);
    in.along_rows(strips);
    out.along_rows(strips);
    char& added = begun[static_cast<std::size_t>(worker)];
    for (std::int64_t column = 0; column < across; ++column) {
      in.along_columns(strips, column, in_tiles, in_step);
      out.along_columns(strips, column, out_tiles, out_step);
      multiply_tiles<true>({.count = down,
                            .rows = matrices.inputs,
                            .inner = (last - first) * tiling.columns.tiles,
                            .columns = outputs,
                            .a = in_tiles,
                            .a_line = inputs,
                            .a_next = in_step,
                            .b = out_tiles,
                            .b_panel = panel,
                            .b_row = outputs,
                            .b_next = out_step,
                            .y = places.data<float>() + worker * places.dim(1) + column * matrices.numbers(),
                            .y_panel = matrices.panel_numbers(),
                            .y_row = matrices.width(),
                            .y_next = matrices.place_step(),
                            .add = added != 0});
    }
    added = 1;
  });
  const Array total = places.select(0, 0);
  for (std::int64_t w = 1; w < blocks.workers; ++w) backend({}).zip(functors::Add{}, total, places.select(0, w), total);
  parallel_for(matrices.panels(), total.numel(), [&](std::int64_t p) {
    for (std::int64_t column = 0; column < across; ++column)
      matrices.to_taps(total.data<float>() + column * matrices.numbers(), column, p, column > 0, {0, 0}, sums);
  });
}

}  // namespace tandem::cpu

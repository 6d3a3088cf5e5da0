#include <tandem/core/backend/backend.h>
#include <tandem/core/cpu/conv/cook_toom_orders.h>

#include <utility>
#include <vector>

namespace tandem::cpu {

namespace {

// Runs a pass block by block.
class BlockPass {
 public:
  explicit BlockPass(const TilePass& pass)
      : pass_(pass),
        down_(pass.tiling.rows.scheme->n()),
        across_(pass.tiling.columns.scheme->n()),
        matrices_(pass.tiling, pass.x.dim(1), pass.outputs),
        blocks_(0, pass.tiling.tile_rows(), rows_of_block(pass.tiling, padded(pass.x.dim(1)) + padded(pass.outputs))),
        input_(pass.tiling, ToTiles::Kind::input, pass.x, blocks_.block) {
    const std::int64_t tiles = blocks_.block * pass.tiling.columns.tiles;
    in_step_ = spread(tiles * padded(pass.x.dim(1)));
    out_step_ = spread(tiles * padded(pass.outputs));
    std::int64_t numbers = input_.numbers() + down_ * in_step_;
    if (pass.convolution) {
      weight_ = Array::empty({across_, matrices_.numbers()});
      result_.emplace(pass.tiling, pass.convolution->y, blocks_.block);
      numbers += result_->numbers();
    }
    if (pass.kernel_sums) {
      sums_ = Array::empty({blocks_.workers, across_ * matrices_.numbers()});
      begun_.resize(static_cast<std::size_t>(blocks_.workers));
      gradient_.emplace(pass.tiling, ToTiles::Kind::output_grad, pass.kernel_sums->grad_y, blocks_.block);
      numbers += gradient_->numbers() + down_ * out_step_;
    }
    memory_ = Array::empty({blocks_.workers, spread(numbers)});
  }

  void run() {
    if (pass_.convolution) transform_weight();
    blocks_.for_each(pass_.x.numel(),
                     [&](std::int64_t worker, std::int64_t first, std::int64_t last) { compute(worker, first, last); });
    if (pass_.kernel_sums) write_sums();
  }

 private:
  // Transforms the weight to the places of all columns.
  void transform_weight() const {
    const auto [taps, memory] = all_taps(pass_.convolution->kernels);
    parallel_for(matrices_.panels(), weight_.numel(), [&, &taps = taps](std::int64_t p) {
      taps.read(p);
      for (std::int64_t column = 0; column < across_; ++column)
        matrices_.from_taps(taps, 0, column, p, weight_.data<float>() + column * weight_.dim(1));
    });
  }

  // Computes the rows of tiles [first, last), from the input images to the output image.
  void compute(std::int64_t worker, std::int64_t first, std::int64_t last) {
    float* next = memory_.data<float>() + worker * memory_.dim(1);
    const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
    const auto strips = pass_.tiling.strips(first, last);
    ToTiles from = input_;
    from.use(take(from.numbers()));
    from.along_rows(strips);
    const std::int64_t tiles = (last - first) * pass_.tiling.columns.tiles;
    float* const in_tiles = take(down_ * in_step_);
    const TilesInColumn seen{in_tiles, tiles, padded(pass_.x.dim(1)), in_step_};
    std::optional<FromTiles> to = result_;
    if (to) to->use(take(to->numbers()));
    std::optional<ToTiles> other = gradient_;
    float* out_tiles = nullptr;
    if (other) {
      other->use(take(other->numbers()));
      other->along_rows(strips);
      out_tiles = take(down_ * out_step_);
    }
    for (std::int64_t column = 0; column < across_; ++column) {
      from.along_columns(strips, column, in_tiles, in_step_);
      if (to) {
        matrices_.multiply(seen, weight_.data<float>() + column * weight_.dim(1), false, *to, column);
        to->along_columns(strips, column);
      }
      if (other) {
        other->along_columns(strips, column, out_tiles, out_step_);
        add_products(worker, seen, {out_tiles, tiles, padded(pass_.outputs), out_step_}, column);
      }
    }
    if (other) begun_[static_cast<std::size_t>(worker)] = 1;
    if (to) to->along_rows(strips, pass_.convolution->added);
  }

  // Adds a block's products to the sums of its worker. The products of a block are added up first, because two levels
  // keep errors small.
  void add_products(std::int64_t worker, const TilesInColumn& in, const TilesInColumn& out, std::int64_t column) const {
    float* const places = sums_.data<float>() + worker * sums_.dim(1) + column * matrices_.numbers();
    matrices_.sum(in, out, begun_[static_cast<std::size_t>(worker)] != 0, places);
  }

  // Adds up the sums of all workers, and transforms them from the places back to the taps.
  void write_sums() const {
    const Array total = sums_.select(0, 0);
    for (std::int64_t w = 1; w < blocks_.workers; ++w)
      backend({}).zip(functors::Add{}, total, sums_.select(0, w), total);
    const auto [taps, memory] = all_taps(pass_.kernel_sums->sums);
    parallel_for(matrices_.panels(), total.numel(), [&, &taps = taps](std::int64_t p) {
      taps.clear(p);
      for (std::int64_t column = 0; column < across_; ++column)
        matrices_.to_taps(total.data<float>() + column * matrices_.numbers(), 0, column, p, taps);
      taps.write(p);
    });
  }

  // Returns the taps of all inputs and outputs, and their memory.
  std::pair<TapPanels, Array> all_taps(const Kernels& kernels) const {
    TapPanels taps(kernels, {0, pass_.outputs}, {0, pass_.x.dim(1)});
    const Array memory = Array::empty({taps.numbers()});
    taps.use(memory.data<float>());
    return {taps, memory};
  }

  const TilePass& pass_;
  const std::int64_t down_, across_;
  const PlaceMatrices matrices_;
  const Blocks blocks_;
  const ToTiles input_;
  std::int64_t in_step_, out_step_;  // from one place of a column's tiles to the next
  std::optional<FromTiles> result_;  // of the convolution
  std::optional<ToTiles> gradient_;  // of the sums
  Array weight_, sums_, memory_;     // (columns, matrices), (workers, columns * matrices), (workers, numbers)
  std::vector<char> begun_;          // whether a worker's sums already contain products
};

}  // namespace

void TilePass::by_blocks() const { BlockPass(*this).run(); }

}  // namespace tandem::cpu

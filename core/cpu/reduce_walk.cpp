#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/reduce_blocks.h>
#include <tandem/core/cpu/reduce_walk.h>

#include <memory>

namespace tandem::cpu {
namespace {

class Walk {
  const BlockReduction& op_;
  const ReduceWalk& walk_;
  const std::byte* x_;

  // Raw memory of at most n states: only those that are used are started.
  template <std::int64_t n>
  struct States {
    alignas(16) std::byte memory[n * BlockReduction::most_state_bytes];
  };

  const std::byte* number(const std::byte* base, std::int64_t offset) const { return base + offset * op_.number_bytes; }
  std::unique_ptr<std::byte[]> memory_of(std::int64_t count) const {
    return std::unique_ptr<std::byte[]>(new std::byte[static_cast<std::size_t>(count * op_.state_bytes)]);
  }

  // For outputs that each reduce one row of neighbours which is no longer than a block: reduces several rows at once.
  void short_rows() const {
    const auto& rows = walk_.kept.dims[walk_.kept.ndim - 1];
    const std::int64_t n = walk_.reduced.count;
    const std::int64_t batch = std::clamp<std::int64_t>(2 * row_block / n, 1, row_block);
    const std::int64_t batches = (rows.size + batch - 1) / batch;
    parallel_for(walk_.kept.count / rows.size * batches, walk_.kept.count * n, [&](std::int64_t item) {
      const std::int64_t first = item % batches * batch, end = std::min(rows.size, first + batch);
      const std::byte* x = number(x_, walk_.kept.offset(item / batches, 1));
      const std::int64_t o = walk_.kept.out_offset(item / batches, 1);
      constexpr std::int64_t most = 16;  // rows that are reduced at once
      for (std::int64_t r = first; r < end; r += most) {
        States<most> states;
        const std::int64_t count = std::min(most, end - r);
        op_.start(states.memory, count);
        op_.rows(number(x, r * rows.stride), count, n, rows.stride, states.memory);
        op_.finish(o + r * rows.out_stride, states.memory, count, rows.out_stride);
      }
    });
  }

 public:
  Walk(const BlockReduction& op, const ReduceWalk& walk, const std::byte* x) : op_(op), walk_(walk), x_(x) {}

  void nothing() const {
    States<1> state;
    op_.start(state.memory, 1);
    for (std::int64_t o = 0; o < walk_.kept.count; ++o) op_.finish(walk_.kept.out_offset(o), state.memory);
  }

  void rows() const {
    const auto& kept = walk_.kept;
    const auto& reduced = walk_.reduced;
    const bool some = reduced.ndim > 0;
    const std::int64_t n = some ? reduced.dims[reduced.ndim - 1].size : 1;
    const std::int64_t stride = some ? reduced.dims[reduced.ndim - 1].stride : 1;
    if (reduced.ndim <= 1 && stride == 1 && n <= row_block && kept.ndim > 0) return short_rows();
    const std::int64_t piece = std::min(n, row_block), pieces = (n + piece - 1) / piece;
    const std::int64_t units = reduced.count / n * pieces;
    const std::int64_t units_per_part = std::max<std::int64_t>(1, part_size / piece);
    const std::int64_t parts = (units + units_per_part - 1) / units_per_part;
    const auto reduce_part = [&](const std::byte* base, std::int64_t part, std::byte* state) {
      op_.start(state, 1);
      const std::int64_t begin = part * units_per_part, end = std::min(units, begin + units_per_part);
      std::int64_t row = begin == 0 ? 0 : begin / pieces, first = (begin - row * pieces) * piece;
      for (std::int64_t unit = begin; unit < end; ++unit) {
        op_.row(number(base, (row == 0 ? 0 : reduced.offset(row, 1)) + first * stride), std::min(piece, n - first),
                stride, state);
        first += piece;
        if (first >= n) {
          first = 0;
          ++row;
        }
      }
    };
    if (parts == 1) {
      parallel_for(kept.count, kept.count * reduced.count, [&](std::int64_t o) {
        States<1> state;
        reduce_part(number(x_, kept.offset(o)), 0, state.memory);
        op_.finish(kept.out_offset(o), state.memory);
      });
      return;
    }
    const auto all = memory_of(kept.count * parts);
    parallel_for(kept.count * parts, kept.count * reduced.count, [&](std::int64_t i) {
      reduce_part(number(x_, kept.offset(i / parts)), i % parts, &all[i * op_.state_bytes]);
    });
    for (std::int64_t o = 0; o < kept.count; ++o) {
      std::byte* state = &all[o * parts * op_.state_bytes];
      for (std::int64_t part = 1; part < parts; ++part) op_.merge(state, state + part * op_.state_bytes, 1);
      op_.finish(kept.out_offset(o), state);
    }
  }

  void columns() const {
    const auto& kept = walk_.kept;
    const auto& reduced = walk_.reduced;
    const std::int64_t all = kept.dims[kept.ndim - 1].size, out_stride = kept.dims[kept.ndim - 1].out_stride;
    const std::int64_t width = std::min(all, column_block), blocks = (all + width - 1) / width;
    const std::int64_t items = kept.count / all * blocks;
    const std::int64_t m = reduced.ndim > 0 ? reduced.dims[reduced.ndim - 1].size : 1;
    const std::int64_t rows_per_part = (part_size / width + column_rows - 1) / column_rows * column_rows;
    const std::int64_t parts = (reduced.count + rows_per_part - 1) / rows_per_part;
    const std::int64_t bytes = width * op_.state_bytes;  // of the states of a block
    const auto reduce_part = [&](std::int64_t item, std::int64_t part, std::byte* states) {
      op_.start(states, width);
      const std::int64_t first = item % blocks * width;
      const std::byte* base = number(x_, kept.offset(item / blocks, 1) + first);
      const std::int64_t end = std::min(reduced.count, (part + 1) * rows_per_part);
      for (std::int64_t r = part * rows_per_part; r < end;) {
        const std::int64_t within = r % m, run = std::min(m - within, end - r);
        run_of_rows(number(base, reduced.offset(r)), std::min(width, all - first), run, states);
        r += run;
      }
    };
    const auto finish_block = [&](std::int64_t item, const std::byte* states) {
      const std::int64_t first = item % blocks * width, n = std::min(width, all - first);
      const std::int64_t o = kept.out_offset(item / blocks, 1) + first * out_stride;
      op_.finish(o, states, n, out_stride);
    };
    if (parts == 1) {
      parallel_for(items, kept.count * reduced.count, [&](std::int64_t item) {
        States<column_block> states;
        reduce_part(item, 0, states.memory);
        finish_block(item, states.memory);
      });
      return;
    }
    const auto of_all = memory_of(items * parts * width);
    parallel_for(items * parts, kept.count * reduced.count,
                 [&](std::int64_t i) { reduce_part(i / parts, i % parts, &of_all[i * bytes]); });
    parallel_for(items, items * parts * width, [&](std::int64_t item) {
      std::byte* of_item = &of_all[item * parts * bytes];
      for (std::int64_t part = 1; part < parts; ++part) op_.merge(of_item, of_item + part * bytes, width);
      finish_block(item, of_item);
    });
  }

 private:
  // Reduces rows of columns that follow each other with the stride of the innermost reduced dimension.
  void run_of_rows(const std::byte* x, std::int64_t columns, std::int64_t rows, std::byte* states) const {
    const std::int64_t stride = walk_.reduced.ndim > 0 ? walk_.reduced.dims[walk_.reduced.ndim - 1].stride : 0;
    constexpr std::int64_t wide = 128;  // columns of a wide row
    // When columns are few and dense, several rows are taken together as one wide row.
    const std::int64_t together = stride == columns && columns <= wide / 4 ? wide / columns : 1;
    std::int64_t r = 0;
    if (together > 1 && rows >= 2 * together) {
      States<wide> of_wide;
      op_.start(of_wide.memory, together * columns);
      for (; r + together <= rows;) {
        const std::int64_t n = std::min(column_rows, (rows - r) / together);
        op_.columns(number(x, r * stride), columns * together, n, stride * together, of_wide.memory);
        r += n * together;
      }
      for (std::int64_t i = 0; i < together; ++i)
        op_.merge(states, of_wide.memory + i * columns * op_.state_bytes, columns);
    }
    while (r < rows) {
      const std::int64_t n = std::min(column_rows, rows - r);
      op_.columns(number(x, r * stride), columns, n, stride, states);
      r += n;
    }
  }
};

}  // namespace

void reduce(const BlockReduction& op, const ReduceWalk& walk, const void* x) {
  const Walk through(op, walk, static_cast<const std::byte*>(x));
  if (walk.reduced.count == 0) through.nothing();
  else if (walk.by_columns()) through.columns();
  else through.rows();
}

}  // namespace tandem::cpu

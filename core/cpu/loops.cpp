#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/cpu/transpose.h>

#include <algorithm>

namespace tandem::cpu {

namespace {

// Of the buffer of one operand: those of four operands fit in half of a first-level cache of 32 KiB.
constexpr std::size_t buffer_bytes = 4096;

// One array within a tile of rows: element (r, i) is `data` + r * row_stride + i * stride.
struct Operand {
  char* data;
  std::int64_t stride, row_stride;  // in elements
  std::int64_t size;                // bytes of an element
  DType dtype;
  bool converts;  // whether elements are 16 bits in memory and floats in the loop

  std::size_t computed_size() const { return converts ? sizeof(float) : static_cast<std::size_t>(size); }
  bool has_dense_rows() const { return stride == 1 && !converts; }
  // Whether the columns of the tile are dense in memory, and not its rows.
  bool is_turned() const { return row_stride == 1 && stride != 0 && stride != 1 && !converts; }
  char* at(std::int64_t row, std::int64_t column) const { return data + (row * row_stride + column * stride) * size; }
};

// To or from 16 bits, with the strides of both sides.
template <class From, class To>
void convert(const From* from, std::int64_t from_stride, std::int64_t n, To* to, std::int64_t to_stride) {
  constexpr int L = std::is_same_v<From, float16> || std::is_same_v<To, float16> ? 8 : 16;
  std::int64_t i = 0;
  if (from_stride == 1 && to_stride == 1)
    for (; i + L <= n; i += L) store<L>(to + i, load<L>(from + i));
  for (; i < n; ++i) to[i * to_stride] = To(from[i * from_stride]);
}

template <class Bits>
void gather_bits(const Bits* from, std::int64_t stride, std::int64_t n, Bits* to) {
  if (stride == 0) std::fill_n(to, n, *from);
  else if (stride == 1) std::copy_n(from, n, to);
  else if (stride == -1)
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[-i];
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

template <class Bits>
void scatter_bits(const Bits* from, std::int64_t n, Bits* to, std::int64_t stride) {
  if (stride == 1) std::copy_n(from, n, to);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] = from[i];
}

void gather(const Operand& operand, const char* from, std::int64_t n, void* to) {
  const std::int64_t stride = operand.stride;
  if (operand.converts) {
    float* floats = static_cast<float*>(to);
    if (operand.dtype == DType::bf16) convert(reinterpret_cast<const bfloat16*>(from), stride, n, floats, 1);
    else convert(reinterpret_cast<const float16*>(from), stride, n, floats, 1);
    return;
  }
  dispatch_bits(operand.dtype, [&]<class Bits>(Bits) {
    gather_bits(reinterpret_cast<const Bits*>(from), stride, n, static_cast<Bits*>(to));
  });
}

void scatter(const Operand& operand, const void* from, std::int64_t n, char* to) {
  const std::int64_t stride = operand.stride;
  if (operand.converts) {
    const float* floats = static_cast<const float*>(from);
    if (operand.dtype == DType::bf16) convert(floats, 1, n, reinterpret_cast<bfloat16*>(to), stride);
    else convert(floats, 1, n, reinterpret_cast<float16*>(to), stride);
    return;
  }
  dispatch_bits(operand.dtype, [&]<class Bits>(Bits) {
    scatter_bits(static_cast<const Bits*>(from), n, reinterpret_cast<Bits*>(to), stride);
  });
}

void gather_block(const Operand& operand, std::int64_t row, std::int64_t column, std::int64_t height,
                  std::int64_t width, char* to) {
  if (operand.is_turned() && height > 1) {
    return dispatch_bits(operand.dtype, [&]<class Bits>(Bits) {
      const auto* from = reinterpret_cast<const Bits*>(operand.at(row, column));
      transpose(from, width, height, operand.stride, reinterpret_cast<Bits*>(to), width);
    });
  }
  for (std::int64_t r = 0; r < height; ++r)
    gather(operand, operand.at(row + r, column), width,
           to + static_cast<std::size_t>(r * width) * operand.computed_size());
}

// From this number of columns on, rows are read in place. Shorter rows are joined in a buffer.
constexpr std::int64_t long_row = 128;

// Runs the loop where rows are dense in every array, and the rows of the output are dense together: one call does it.
template <int K>
bool run_dense_rows(const DenseLoop& loop, const std::array<Operand, K>& operands, std::int64_t rows,
                    std::int64_t columns) {
  if (!std::ranges::all_of(operands, &Operand::has_dense_rows)) return false;
  if (rows > 1 && (columns < long_row || operands[K - 1].row_stride != columns)) return false;
  DenseLoop::Blocks blocks{rows, columns};
  std::array<const void*, K> in{};
  for (int k = 0; k < K - 1; ++k) {
    blocks.step[k] = operands[k].row_stride;
    in[k] = operands[k].data;
  }
  loop.run(loop.function, blocks, operands[K - 1].data, in.data());
  return true;
}

// Runs the loop where each row of an input is dense, or is one repeated number. The number is written out as one short
// block, which the loop reads again and again.
template <int K>
bool run_repeated(const DenseLoop& loop, const std::array<Operand, K>& operands, std::int64_t rows,
                  std::int64_t columns) {
  constexpr std::int64_t length = 64;  // numbers in the block that is written out
  if (columns < long_row || !operands[K - 1].has_dense_rows()) return false;
  DenseLoop::Blocks blocks{columns / length, length};
  bool repeats = false;
  for (int k = 0; k < K - 1; ++k) {
    if (operands[k].stride == 0) repeats = true;
    else if (!operands[k].has_dense_rows()) return false;
    blocks.step[k] = operands[k].stride * length;
  }
  if (!repeats) return false;
  alignas(64) char buffers[K][length * sizeof(double)];
  const std::int64_t rest = columns % length;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto run_from = [&](std::int64_t column, const DenseLoop::Blocks& part) {
      std::array<const void*, K> in{};
      for (int k = 0; k < K - 1; ++k) in[k] = operands[k].stride == 0 ? buffers[k] : operands[k].at(row, column);
      loop.run(loop.function, part, operands[K - 1].at(row, column), in.data());
    };
    for (int k = 0; k < K - 1; ++k) {
      if (operands[k].stride == 0 && (row == 0 || operands[k].row_stride != 0))
        gather_block(operands[k], row, 0, 1, length, buffers[k]);
    }
    run_from(0, blocks);
    if (rest > 0) run_from(columns - rest, {1, rest});
  }
  return true;
}

// Copies rows straight to the output, where a copy needs no buffer in between.
template <int K>
bool copy_rows(const DenseLoop& loop, const std::array<Operand, K>& operands, std::int64_t rows, std::int64_t columns) {
  const Operand &from = operands[0], &to = operands[K - 1];
  if (!loop.is_copy || from.is_turned() || to.stride != 1) return false;
  for (std::int64_t row = 0; row < rows; ++row) gather_block(from, row, 0, 1, columns, to.at(row, 0));
  return true;
}

// Runs the loop over rows of `columns` elements, in blocks that fit into a buffer or are dense in every array. With
// `by_lines`, a block has as many rows as a cache line has elements, so that each cache line of an array whose columns
// are dense is fetched only once. Otherwise a block is a piece of one row, or several short rows.
template <int K>
void run_tile(const DenseLoop& loop, const std::array<Operand, K>& operands, std::int64_t rows, std::int64_t columns,
              bool by_lines) {
  if (!by_lines && (run_dense_rows<K>(loop, operands, rows, columns) || copy_rows<K>(loop, operands, rows, columns) ||
                    run_repeated<K>(loop, operands, rows, columns)))
    return;
  constexpr std::int64_t line_bytes = 64;
  // Some inputs repeat one number in a row and another number in the next row. Such a number is written out only 512
  // times: to fill a longer piece of the buffer would cost as much as the loop itself.
  constexpr std::int64_t repeated = 512;
  std::int64_t widest = 1;
  bool rows_are_dense = true;  // within one row, whether or not rows follow each other
  bool repeats_in_rows = false;
  for (const Operand& operand : operands) {
    rows_are_dense &= operand.stride == 1 && !operand.converts;
    repeats_in_rows |= operand.stride == 0 && operand.row_stride != 0;
    widest = std::max(widest, static_cast<std::int64_t>(operand.computed_size()));
  }
  const std::int64_t room = buffer_bytes / widest;
  std::int64_t block_rows = std::clamp<std::int64_t>(room / columns, 1, rows), block_columns = columns;
  if (by_lines) {
    block_rows = std::min(rows, line_bytes / widest);
    block_columns = std::min(columns, room / block_rows);
  } else if (!rows_are_dense || block_rows > 1) {
    block_columns = std::min(columns, repeats_in_rows && block_rows == 1 ? repeated : room);
  }

  alignas(64) char buffers[K][buffer_bytes];
  std::array<bool, K> is_direct;
  std::array<std::int64_t, K> filled_row;  // the row whose number fills the buffer of a repeated operand
  filled_row.fill(-1);
  for (int k = 0; k < K; ++k) {
    const Operand& operand = operands[k];
    is_direct[k] =
        operand.stride == 1 && !operand.converts && (by_lines || block_rows == 1 || operand.row_stride == columns);
  }
  const auto run_block = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t height = std::min(block_rows, rows - row);
    const std::int64_t width = std::min(block_columns, columns - column);
    for (int k = 0; k < K - 1; ++k) {
      const Operand& operand = operands[k];
      if (is_direct[k]) continue;
      const bool stays = !by_lines && (operand.stride == 0 || block_columns == columns);
      const std::int64_t needed = operand.row_stride == 0 ? 0 : row;
      if (stays && filled_row[k] == needed) continue;
      filled_row[k] = needed;
      gather_block(operand, row, column, height, width, buffers[k]);
    }
    // One call of the loop does the block where it is dense; else there is one call for each row.
    const std::int64_t calls = by_lines ? height : 1, n = height * width / calls;
    for (std::int64_t r = 0; r < calls; ++r) {
      const auto place = [&](int k) {
        const Operand& operand = operands[k];
        return is_direct[k] ? operand.at(row + r, column)
                            : buffers[k] + static_cast<std::size_t>(r * n) * operand.computed_size();
      };
      std::array<const void*, K> in{};
      for (int k = 0; k < K - 1; ++k) in[k] = place(k);
      loop.run(loop.function, {1, n}, place(K - 1), in.data());
    }
    const Operand& out = operands[K - 1];
    if (is_direct[K - 1]) return;
    for (std::int64_t r = 0; r < height; ++r)
      scatter(out, buffers[K - 1] + static_cast<std::size_t>(r * width) * out.computed_size(), width,
              out.at(row + r, column));
  };
  if (by_lines) {
    for (std::int64_t column = 0; column < columns; column += block_columns)
      for (std::int64_t row = 0; row < rows; row += block_rows) run_block(row, column);
  } else {
    for (std::int64_t row = 0; row < rows; row += block_rows)
      for (std::int64_t column = 0; column < columns; column += block_columns) run_block(row, column);
  }
}

// Whether an input is dense in another dimension than the output, as in a transposition. That dimension is moved next
// to the innermost one.
template <int K>
bool bring_turned_dimension_inside(LoopNest<K>& nest) {
  constexpr std::int64_t least = 16;  // columns: a tile with fewer of them is one block with some rows
  const int inner = nest.ndim - 1;
  if (nest.size[inner] <= least) return false;
  for (int d = inner - 1; d >= 0; --d) {
    for (int k = 0; k < K - 1; ++k) {
      if (nest.stride[d][k] != 1 || nest.stride[inner][k] == 0 || nest.stride[inner][k] == 1) continue;
      std::rotate(nest.size.begin() + d, nest.size.begin() + d + 1, nest.size.begin() + inner);
      std::rotate(nest.stride.begin() + d, nest.stride.begin() + d + 1, nest.stride.begin() + inner);
      return true;
    }
  }
  return false;
}

}  // namespace

template <int K>
void run(const DenseLoop& loop, const std::array<const Array*, K>& arrays, const std::array<bool, K>& is_float) {
  const std::int64_t numel = arrays[K - 1]->numel();
  if (numel == 0) return;
  LoopNest<K> nest(arrays);
  const bool by_lines = bring_turned_dimension_inside(nest);
  const int inner = nest.ndim - 1;
  const std::int64_t columns = nest.size[inner], rows = inner > 0 ? nest.size[inner - 1] : 1;
  // What a thread takes at a time: a piece of a long row, or several rows.
  constexpr std::int64_t piece = parallel_grain / 2;
  const std::int64_t tile_columns = std::min<std::int64_t>(columns, by_lines ? 512 : piece);
  const std::int64_t tile_rows = std::clamp<std::int64_t>(piece / tile_columns, 1, rows);
  const std::int64_t across = (columns + tile_columns - 1) / tile_columns;
  const std::int64_t down = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t tiles = numel / (rows * columns) * down * across;
  parallel_for(tiles, numel, [&](std::int64_t tile) {
    const std::int64_t column = tile % across * tile_columns;
    const std::int64_t row = tile / across % down * tile_rows;
    const std::array<std::int64_t, K> offset = nest.offsets(tile / across / down, 2);
    std::array<Operand, K> operands;
    for (int k = 0; k < K; ++k) {
      const DType dtype = arrays[k]->dtype();
      const bool is_16_bit = dtype == DType::bf16 || dtype == DType::f16;
      operands[k] = {static_cast<char*>(arrays[k]->raw()),
                     nest.stride[inner][k],
                     inner > 0 ? nest.stride[inner - 1][k] : 0,
                     static_cast<std::int64_t>(size_of(dtype)),
                     dtype,
                     is_float[k] && is_16_bit};
      operands[k].data += offset[k] * operands[k].size;
      operands[k].data = operands[k].at(row, column);
    }
    run_tile<K>(loop, operands, std::min(tile_rows, rows - row), std::min(tile_columns, columns - column), by_lines);
  });
}

template void run<1>(const DenseLoop&, const std::array<const Array*, 1>&, const std::array<bool, 1>&);
template void run<2>(const DenseLoop&, const std::array<const Array*, 2>&, const std::array<bool, 2>&);
template void run<3>(const DenseLoop&, const std::array<const Array*, 3>&, const std::array<bool, 3>&);
template void run<4>(const DenseLoop&, const std::array<const Array*, 4>&, const std::array<bool, 4>&);

}  // namespace tandem::cpu

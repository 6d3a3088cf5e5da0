#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/cpu/transpose.h>

#include <algorithm>

namespace tandem::cpu {

namespace {

// The size of the buffer of one operand. The buffers of four operands fit in half of a first-level cache of 32 KiB.
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
  // Returns whether the columns of the tile are dense in memory, and its rows are not.
  bool is_turned() const { return row_stride == 1 && stride != 0 && stride != 1 && !converts; }
  char* at(std::int64_t row, std::int64_t column) const { return data + (row * row_stride + column * stride) * size; }
};

// Converts to or from 16 bits, with any strides on both sides.
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

// Some rows of every array. The last array is the output.
template <int K>
struct Tile {
  const DenseLoop& loop;
  std::array<Operand, K> operands;
  std::int64_t rows, columns;

  const Operand& out() const { return operands[K - 1]; }
  // Runs the loop on blocks that begin, in array k, at place(k).
  template <class F>
  void run(const DenseLoop::Blocks& blocks, F place) const {
    std::array<const void*, K> in{};
    for (int k = 0; k < K - 1; ++k) in[k] = place(k);
    loop.run(loop.function, blocks, place(K - 1), in.data());
  }
};

// From this number of columns on, rows are read in place. Shorter rows are joined in a buffer.
constexpr std::int64_t long_row = 128;

// Runs the loop in place, if rows are dense in every array. One call processes all rows that form one run of the
// output.
template <int K>
bool run_dense_rows(const Tile<K>& tile) {
  if (!std::ranges::all_of(tile.operands, &Operand::has_dense_rows)) return false;
  if (tile.rows > 1 && tile.columns < long_row) return false;
  DenseLoop::Blocks blocks{tile.out().row_stride == tile.columns ? tile.rows : 1, tile.columns};
  for (int k = 0; k < K - 1; ++k) blocks.step[k] = tile.operands[k].row_stride;
  for (std::int64_t row = 0; row < tile.rows; row += blocks.count)
    tile.run(blocks, [&](int k) { return tile.operands[k].at(row, 0); });
  return true;
}

// Copies rows directly to the output, if no buffer is needed in between.
template <int K>
bool copy_rows(const Tile<K>& tile) {
  const Operand &from = tile.operands[0], &to = tile.out();
  if (!tile.loop.is_copy || from.is_turned() || to.stride != 1) return false;
  for (std::int64_t row = 0; row < tile.rows; ++row) gather_block(from, row, 0, 1, tile.columns, to.at(row, 0));
  return true;
}

// Runs the loop if each row of an input is dense, or is one repeated number. The number is written out as one short
// block, which the loop reads again and again.
template <int K>
bool run_repeated(const Tile<K>& tile) {
  constexpr std::int64_t length = 64;  // numbers in the block that is written out
  if (tile.columns < long_row || !tile.out().has_dense_rows()) return false;
  DenseLoop::Blocks blocks{tile.columns / length, length};
  for (int k = 0; k < K - 1; ++k) {
    if (tile.operands[k].stride != 0 && !tile.operands[k].has_dense_rows()) return false;
    blocks.step[k] = tile.operands[k].stride * length;
  }
  alignas(64) char buffers[K][length * sizeof(double)];
  const std::int64_t rest = tile.columns % length;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    for (int k = 0; k < K - 1; ++k) {
      const Operand& operand = tile.operands[k];
      if (operand.stride == 0 && (row == 0 || operand.row_stride != 0))
        gather_block(operand, row, 0, 1, length, buffers[k]);
    }
    std::int64_t column = 0;
    const auto place = [&](int k) {
      return tile.operands[k].stride == 0 ? buffers[k] : tile.operands[k].at(row, column);
    };
    tile.run(blocks, place);
    column = tile.columns - rest;
    if (rest > 0) tile.run({1, rest}, place);
  }
  return true;
}

// Runs the loop on one block of a tile after the other. An array that the loop can't read or write in place passes
// through a buffer. A call of the loop takes `rows_of_call` rows of a block.
template <int K>
class BlockLoop {
  const Tile<K>& tile_;
  const std::int64_t rows_, columns_, rows_of_call_;
  std::array<bool, K> is_direct_;
  std::array<std::int64_t, K> filled_row_;  // the row from which an input's buffer was filled, where only that matters
  alignas(64) char buffers_[K][buffer_bytes];

 public:
  BlockLoop(const Tile<K>& tile, std::int64_t block_rows, std::int64_t block_columns, std::int64_t rows_of_call)
      : tile_(tile), rows_(block_rows), columns_(block_columns), rows_of_call_(rows_of_call) {
    filled_row_.fill(-1);
    for (int k = 0; k < K; ++k) {
      const Operand& operand = tile.operands[k];
      is_direct_[k] = operand.has_dense_rows() && (rows_of_call == 1 || operand.row_stride == tile.columns);
    }
  }
  void run(std::int64_t row, std::int64_t column) {
    const std::int64_t height = std::min(rows_, tile_.rows - row), width = std::min(columns_, tile_.columns - column);
    for (int k = 0; k < K - 1; ++k) {
      const Operand& operand = tile_.operands[k];
      if (is_direct_[k]) continue;
      const bool is_any_column = columns_ == tile_.columns || (operand.stride == 0 && rows_ == 1);
      const std::int64_t needed = operand.row_stride == 0 ? 0 : row;
      if (is_any_column && filled_row_[k] == needed) continue;
      filled_row_[k] = needed;
      gather_block(operand, row, column, height, width, buffers_[k]);
    }
    const auto buffer = [&](int k, std::int64_t r) {
      return buffers_[k] + static_cast<std::size_t>(r * width) * tile_.operands[k].computed_size();
    };
    for (std::int64_t r = 0; r < height; r += rows_of_call_) {
      const auto place = [&](int k) { return is_direct_[k] ? tile_.operands[k].at(row + r, column) : buffer(k, r); };
      tile_.run({1, std::min(rows_of_call_, height - r) * width}, place);
    }
    for (std::int64_t r = 0; r < height && !is_direct_[K - 1]; ++r)
      scatter(tile_.out(), buffer(K - 1, r), width, tile_.out().at(row + r, column));
  }
};

// Returns how many numbers of the widest array fit into a buffer of `bytes`.
template <int K>
std::int64_t numbers_in(std::size_t bytes, const Tile<K>& tile) {
  std::size_t widest = 1;
  for (const Operand& operand : tile.operands) widest = std::max(widest, operand.computed_size());
  return static_cast<std::int64_t>(bytes / widest);
}

// Runs the loop if the columns of an array are dense. A block has as many rows as a cache line has elements, so that
// each cache line of that array is fetched only once.
template <int K>
void run_by_lines(const Tile<K>& tile) {
  constexpr std::size_t line_bytes = 64;
  const std::int64_t rows = std::min(tile.rows, numbers_in(line_bytes, tile));
  const std::int64_t columns = std::min(tile.columns, numbers_in(buffer_bytes, tile) / rows);
  BlockLoop<K> block(tile, rows, columns, 1);
  for (std::int64_t column = 0; column < tile.columns; column += columns)
    for (std::int64_t row = 0; row < tile.rows; row += rows) block.run(row, column);
}

// Runs the loop on arrays of any strides. A block is a piece of one row, or several short rows.
template <int K>
void run_in_pieces(const Tile<K>& tile) {
  // An input may repeat one number in a row and another number in the next row. Such a number is written out only 512
  // times, because filling a longer piece of the buffer would cost as much as the loop itself.
  constexpr std::int64_t repeated = 512;
  const auto repeats_in_rows = [](const Operand& operand) { return operand.stride == 0 && operand.row_stride != 0; };
  const std::int64_t room = numbers_in(buffer_bytes, tile);
  const std::int64_t rows = std::clamp<std::int64_t>(room / tile.columns, 1, tile.rows);
  const bool is_short = rows == 1 && std::ranges::any_of(tile.operands, repeats_in_rows);
  const std::int64_t columns = std::min(tile.columns, is_short ? repeated : room);
  BlockLoop<K> block(tile, rows, columns, rows);
  for (std::int64_t row = 0; row < tile.rows; row += rows)
    for (std::int64_t column = 0; column < tile.columns; column += columns) block.run(row, column);
}

// Returns whether an input is dense in a different dimension from the output, as in a transposition. If so, moves that
// dimension next to the innermost one.
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
  // A thread takes this many numbers at a time: a piece of a long row, or several rows.
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
    Tile<K> part{loop, {}, std::min(tile_rows, rows - row), std::min(tile_columns, columns - column)};
    for (int k = 0; k < K; ++k) {
      const DType dtype = arrays[k]->dtype();
      const bool is_16_bit = dtype == DType::bf16 || dtype == DType::f16;
      Operand& operand = part.operands[k];
      operand = {static_cast<char*>(arrays[k]->raw()),
                 nest.stride[inner][k],
                 inner > 0 ? nest.stride[inner - 1][k] : 0,
                 static_cast<std::int64_t>(size_of(dtype)),
                 dtype,
                 is_float[k] && is_16_bit};
      operand.data += offset[k] * operand.size;
      operand.data = operand.at(row, column);
    }
    if (by_lines) run_by_lines(part);
    else if (!run_dense_rows(part) && !copy_rows(part) && !run_repeated(part)) run_in_pieces(part);
  });
}

template void run<1>(const DenseLoop&, const std::array<const Array*, 1>&, const std::array<bool, 1>&);
template void run<2>(const DenseLoop&, const std::array<const Array*, 2>&, const std::array<bool, 2>&);
template void run<3>(const DenseLoop&, const std::array<const Array*, 3>&, const std::array<bool, 3>&);
template void run<4>(const DenseLoop&, const std::array<const Array*, 4>&, const std::array<bool, 4>&);

}  // namespace tandem::cpu

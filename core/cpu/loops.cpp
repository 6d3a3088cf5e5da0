#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/simd.h>
#include <tandem/core/loop_plan.h>

#include <algorithm>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace tandem::cpu {

namespace {

constexpr std::size_t buffer_bytes = 4096;

// One array within a tile of rows: element (r, i) is `data` + r * row_stride + i * stride.
struct Operand {
  char* data;
  std::int64_t stride, row_stride;  // in elements
  DType dtype;
  bool converts;  // between 16 bits in memory and the floats of the loop

  std::size_t size() const { return size_of(dtype); }
  char* at(std::int64_t row, std::int64_t column) const {
    return data + (row * row_stride + column * stride) * static_cast<std::int64_t>(size());
  }
};

template <class T>
void widen(const T* from, std::int64_t stride, std::int64_t n, float* to) {
  std::int64_t i = 0;
  if (stride == 1) {
#ifdef __F16C__
    if constexpr (std::is_same_v<T, float16>) {
      for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    }
#endif
    if constexpr (std::is_same_v<T, bfloat16>) {
      for (; i + 16 <= n; i += 16) store<16>(to + i, load<16>(from + i));
    }
  }
  for (; i < n; ++i) to[i] = from[i * stride];
}

template <class T>
void narrow(const float* from, std::int64_t n, T* to, std::int64_t stride) {
  std::int64_t i = 0;
  if (stride == 1) {
#ifdef __F16C__
    if constexpr (std::is_same_v<T, float16>) {
      for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
      }
    }
#endif
    if constexpr (std::is_same_v<T, bfloat16>) {
      for (; i + 16 <= n; i += 16) store<16>(to + i, load<16>(from + i));
    }
  }
  for (; i < n; ++i) to[i * stride] = T(from[i]);
}

template <class Bits>
void gather_bits(const void* from, std::int64_t stride, std::int64_t n, void* to) {
  const Bits* source = static_cast<const Bits*>(from);
  Bits* target = static_cast<Bits*>(to);
  if (stride == 0) std::fill_n(target, n, *source);
  else if (stride == 1) std::copy_n(source, n, target);
  else
    for (std::int64_t i = 0; i < n; ++i) target[i] = source[i * stride];
}

template <class Bits>
void scatter_bits(const void* from, std::int64_t n, void* to, std::int64_t stride) {
  const Bits* source = static_cast<const Bits*>(from);
  Bits* target = static_cast<Bits*>(to);
  if (stride == 1) std::copy_n(source, n, target);
  else
    for (std::int64_t i = 0; i < n; ++i) target[i * stride] = source[i];
}

void gather(const Operand& operand, const char* from, std::int64_t n, void* to) {
  const std::int64_t stride = operand.stride;
  if (operand.converts) {
    float* floats = static_cast<float*>(to);
    if (operand.dtype == DType::bf16) widen(reinterpret_cast<const bfloat16*>(from), stride, n, floats);
    else widen(reinterpret_cast<const float16*>(from), stride, n, floats);
    return;
  }
  switch (operand.size()) {
    case 1: return gather_bits<std::uint8_t>(from, stride, n, to);
    case 2: return gather_bits<std::uint16_t>(from, stride, n, to);
    case 4: return gather_bits<std::uint32_t>(from, stride, n, to);
    default: return gather_bits<std::uint64_t>(from, stride, n, to);
  }
}

void scatter(const Operand& operand, const void* from, std::int64_t n, char* to) {
  const std::int64_t stride = operand.stride;
  if (operand.converts) {
    const float* floats = static_cast<const float*>(from);
    if (operand.dtype == DType::bf16) narrow(floats, n, reinterpret_cast<bfloat16*>(to), stride);
    else narrow(floats, n, reinterpret_cast<float16*>(to), stride);
    return;
  }
  switch (operand.size()) {
    case 1: return scatter_bits<std::uint8_t>(from, n, to, stride);
    case 2: return scatter_bits<std::uint16_t>(from, n, to, stride);
    case 4: return scatter_bits<std::uint32_t>(from, n, to, stride);
    default: return scatter_bits<std::uint64_t>(from, n, to, stride);
  }
}

// Rows of `columns` elements, in blocks that are dense in every array or fit into a buffer: a piece of a row, or some
// short rows.
template <int K>
void run_tile(const DenseLoop& loop, const std::array<Operand, K>& operands, std::int64_t rows,
              std::int64_t columns) {
  std::size_t widest = 1;
  bool rows_are_dense = true;  // as far as one row goes
  for (const Operand& operand : operands) {
    rows_are_dense &= operand.stride == 1 && !operand.converts;
    widest = std::max(widest, operand.converts ? sizeof(float) : operand.size());
  }
  const auto room = static_cast<std::int64_t>(buffer_bytes / widest);
  const std::int64_t block_rows = std::clamp<std::int64_t>(room / columns, 1, rows);
  const std::int64_t block_columns = rows_are_dense && block_rows == 1 ? columns : std::min(columns, room);

  alignas(64) char buffers[K][buffer_bytes];
  std::array<bool, K> is_direct;
  std::array<std::int64_t, K> filled_row;  // what the buffer of a repeated operand holds
  filled_row.fill(-1);
  for (int k = 0; k < K; ++k) {
    const Operand& operand = operands[k];
    is_direct[k] =
        operand.stride == 1 && !operand.converts && (block_rows == 1 || operand.row_stride == columns);
  }
  std::array<const void*, K> in{};
  for (std::int64_t row = 0; row < rows; row += block_rows) {
    const std::int64_t height = std::min(block_rows, rows - row);
    for (std::int64_t column = 0; column < columns; column += block_columns) {
      const std::int64_t width = std::min(block_columns, columns - column);
      for (int k = 0; k < K - 1; ++k) {
        const Operand& operand = operands[k];
        if (is_direct[k]) {
          in[k] = operand.at(row, column);
          continue;
        }
        in[k] = buffers[k];
        const bool repeats = operand.stride == 0 || block_columns == columns;
        const std::int64_t needed = operand.row_stride == 0 ? 0 : row;
        if (repeats && filled_row[k] == needed) continue;
        filled_row[k] = needed;
        const std::size_t element = operand.converts ? sizeof(float) : operand.size();
        for (std::int64_t r = 0; r < height; ++r)
          gather(operand, operand.at(row + r, column), width,
                 buffers[k] + static_cast<std::size_t>(r * width) * element);
      }
      const Operand& out = operands[K - 1];
      if (is_direct[K - 1]) {
        loop.run(loop.function, height * width, out.at(row, column), in.data());
        continue;
      }
      loop.run(loop.function, height * width, buffers[K - 1], in.data());
      const std::size_t element = out.converts ? sizeof(float) : out.size();
      for (std::int64_t r = 0; r < height; ++r)
        scatter(out, buffers[K - 1] + static_cast<std::size_t>(r * width) * element, width,
                out.at(row + r, column));
    }
  }
}

}  // namespace

template <int K>
void run(const DenseLoop& loop, const std::array<const Array*, K>& arrays,
         const std::array<bool, K>& is_float) {
  const std::int64_t numel = arrays[K - 1]->numel();
  if (numel == 0) return;
  const LoopPlan<K> plan(arrays);
  const int inner = plan.rank - 1;
  const std::int64_t columns = plan.size[inner], rows = inner > 0 ? plan.size[inner - 1] : 1;
  // Work for one thread at a time: a piece of a long row, or several rows.
  constexpr std::int64_t piece = parallel_grain / 2;
  const std::int64_t tile_columns = std::min(columns, piece);
  const std::int64_t tile_rows = std::clamp<std::int64_t>(piece / columns, 1, rows);
  const std::int64_t across = (columns + tile_columns - 1) / tile_columns;
  const std::int64_t down = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t tiles = numel / (rows * columns) * down * across;
  parallel_for(tiles, numel, [&](std::int64_t tile) {
    const std::int64_t column = tile % across * tile_columns;
    const std::int64_t row = tile / across % down * tile_rows;
    std::int64_t outer = tile / across / down;
    std::array<std::int64_t, K> offset{};
    for (int d = inner - 2; d >= 0; --d) {
      const std::int64_t i = outer % plan.size[d];
      outer /= plan.size[d];
      for (int k = 0; k < K; ++k) offset[k] += i * plan.stride[d][k];
    }
    std::array<Operand, K> operands;
    for (int k = 0; k < K; ++k) {
      const DType dtype = arrays[k]->dtype();
      const bool is_16_bit = dtype == DType::bf16 || dtype == DType::f16;
      operands[k] = {static_cast<char*>(arrays[k]->raw()), plan.stride[inner][k],
                     inner > 0 ? plan.stride[inner - 1][k] : 0, dtype, is_float[k] && is_16_bit};
      operands[k].data += offset[k] * static_cast<std::int64_t>(size_of(dtype));
      operands[k].data = operands[k].at(row, column);
    }
    run_tile<K>(loop, operands, std::min(tile_rows, rows - row), std::min(tile_columns, columns - column));
  });
}

template void run<1>(const DenseLoop&, const std::array<const Array*, 1>&, const std::array<bool, 1>&);
template void run<2>(const DenseLoop&, const std::array<const Array*, 2>&, const std::array<bool, 2>&);
template void run<3>(const DenseLoop&, const std::array<const Array*, 3>&, const std::array<bool, 3>&);
template void run<4>(const DenseLoop&, const std::array<const Array*, 4>&, const std::array<bool, 4>&);

}  // namespace tandem::cpu

#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/element_functions.h>
#include <tandem/core/loop_plan.h>

namespace tandem {

namespace {

// Moves numbers of one size without looking at them. Where source and target are dense in different dimensions (a
// transposition), it goes by tiles, so that each cache line is fetched once.
template <class Bits>
void copy_bits(const Array& from, const Array& to) {
  const LoopPlan<2> plan({&from, &to});
  const int inner = plan.rank - 1;
  int dense_in_source = inner;
  for (int d = 0; d < plan.rank; ++d)
    if (plan.stride[d][0] == 1 && plan.stride[inner][0] != 0) dense_in_source = d;
  const Bits* source = static_cast<const Bits*>(from.raw());
  Bits* target = static_cast<Bits*>(to.raw());
  if (dense_in_source == inner || plan.stride[inner][1] != 1) {
    cpu::Loops::transform<Bits, Bits>(from, to, Keep{});
    return;
  }
  const std::int64_t columns = plan.size[inner], column_stride = plan.stride[inner][0];
  const std::int64_t rows = plan.size[dense_in_source], row_stride = plan.stride[dense_in_source][1];
  constexpr std::int64_t tile = 16;
  cpu::parallel_for(to.numel() / (rows * columns), to.numel(), [&](std::int64_t matrix) {
    const Bits* a = source;
    Bits* b = target;
    for (int d = inner - 1; d >= 0; --d) {
      if (d == dense_in_source) continue;
      const std::int64_t i = matrix % plan.size[d];
      matrix /= plan.size[d];
      a += i * plan.stride[d][0];
      b += i * plan.stride[d][1];
    }
    for (std::int64_t r0 = 0; r0 < rows; r0 += tile) {
      const std::int64_t r1 = std::min(rows, r0 + tile);
      for (std::int64_t c0 = 0; c0 < columns; c0 += tile) {
        const std::int64_t c1 = std::min(columns, c0 + tile);
        for (std::int64_t r = r0; r < r1; ++r)
          for (std::int64_t c = c0; c < c1; ++c) b[r * row_stride + c] = a[c * column_stride + r];
      }
    }
  });
}

}  // namespace

void CpuBackend::copy(const Array& from, const Array& to) {
  if (from.dtype() == to.dtype()) {
    switch (size_of(from.dtype())) {
      case 1: return copy_bits<std::uint8_t>(from, to);
      case 2: return copy_bits<std::uint16_t>(from, to);
      case 4: return copy_bits<std::uint32_t>(from, to);
      default: return copy_bits<std::uint64_t>(from, to);
    }
  }
  elementwise::convert<cpu::Loops>(from, to);
}
void CpuBackend::fill(const Array& to, double value) { elementwise::fill<cpu::Loops>(to, value); }
void CpuBackend::where(const Array& condition, const Array& a, const Array& b, const Array& y) {
  elementwise::where<cpu::Loops>(condition, a, b, y);
}

}  // namespace tandem

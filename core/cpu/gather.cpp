#include <tandem/core/array/loop_nest.h>
#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/index_positions.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/formulas/normalize.h>

#include <algorithm>
#include <cstring>

namespace tandem {

// gather_rows and gather_normalized run only on the caller's thread: a data loader has its own workers, and copying is
// soon limited by memory, not by processor cores. gather, which models use, uses all threads.

std::int64_t CpuBackend::gather_rows(const Array& rows, const Array& index, const Array& out) {
  const std::int64_t n = index.numel(), count = rows.dim(0);
  const std::int64_t* wanted = index.data<std::int64_t>();
  if (const auto bad = first_outside(wanted, n, count); bad >= 0) return bad;
  const std::size_t bytes = rows.bytes() / static_cast<std::size_t>(count);
  const auto* from = static_cast<const std::byte*>(rows.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  for (std::int64_t i = 0; i < n; ++i, to += bytes)
    std::memcpy(to, from + static_cast<std::size_t>(wanted[i]) * bytes, bytes);
  return -1;
}

std::int64_t CpuBackend::gather_normalized(const Array& rows, const Array& index, float mean, float std,
                                           const Array& out) {
  const std::int64_t n = index.numel(), count = rows.dim(0);
  const std::int64_t* wanted = index.data<std::int64_t>();
  if (const auto bad = first_outside(wanted, n, count); bad >= 0) return bad;
  const std::int64_t size = rows.numel() / count;
  const auto* from = rows.data<std::uint8_t>();
  const auto gather = [&](auto normalize) {
    auto* to = out.data<float>();
    for (std::int64_t i = 0; i < n; ++i)
      to = std::transform(from + wanted[i] * size, from + (wanted[i] + 1) * size, to, normalize);
  };
  // If mean and std are constants, the compiler removes the operations that have no effect, above all the second
  // division, which takes longest.
  if (mean == 0 && std == 1) gather([](std::uint8_t byte) { return Normalize{}(byte); });
  else gather(Normalize{mean, std});
  return -1;
}

namespace {

bool are_inside(const std::int64_t* index, std::int64_t stride, std::int64_t n, std::int64_t count) {
  std::uint64_t highest = 0;  // as an unsigned number, a negative index is large
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) highest = std::max(highest, static_cast<std::uint64_t>(index[i]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) highest = std::max(highest, static_cast<std::uint64_t>(index[i * stride]));
  }
  return highest < static_cast<std::uint64_t>(count);
}

// Computes y[k] = x[k][index[k]], where each array has a stride from one k to the next. `step` is the stride of x along
// the indexed dimension.
template <class Bits>
void take(const Bits* x, std::int64_t x_stride, std::int64_t step, const std::int64_t* index, std::int64_t index_stride,
          Bits* y, std::int64_t y_stride, std::int64_t n) {
  if (x_stride == 0 && step == 1 && index_stride == 1 && y_stride == 1) {
    for (std::int64_t k = 0; k < n; ++k) y[k] = x[index[k]];
  } else if (index_stride == 1 && y_stride == 1) {
    for (std::int64_t k = 0; k < n; ++k) y[k] = x[k * x_stride + index[k] * step];
  } else {
    for (std::int64_t k = 0; k < n; ++k) y[k * y_stride] = x[k * x_stride + index[k * index_stride] * step];
  }
}

// Calls row(offsets, strides, n) for each innermost row of n elements. offsets and strides have one entry for each
// array, in elements. Rows are distributed over threads, and a single long row is divided into pieces.
template <class Row>
void for_each_row(const std::array<const Array*, 3>& arrays, Row row) {
  const std::int64_t numel = arrays[2]->numel();
  if (numel == 0) return;
  const LoopNest<3> nest(arrays);
  const std::int64_t inner = nest.size[nest.ndim - 1];
  const auto& strides = nest.stride[nest.ndim - 1];
  if (nest.ndim == 1) {
    const std::int64_t piece = cpu::parallel_grain / 2;
    const std::int64_t pieces = (inner + piece - 1) / piece;
    cpu::parallel_for(pieces, numel, [&](std::int64_t p) {
      std::array<std::int64_t, 3> offsets;
      for (int k = 0; k < 3; ++k) offsets[k] = p * piece * strides[k];
      row(offsets, strides, std::min(piece, inner - p * piece));
    });
    return;
  }
  cpu::parallel_for(numel / inner, numel, [&](std::int64_t r) { row(nest.offsets(r, 1), strides, inner); });
}

template <class Bits>
std::int64_t gather_bits(const Array& x, int dim, const Array& index, const Array& y) {
  const std::int64_t count = x.shape()[dim], step = x.strides()[dim];
  const Array base = repeated_along(x, dim, y.shape());
  const auto* from = static_cast<const Bits*>(x.raw());
  const auto* wanted = static_cast<const std::int64_t*>(index.raw());
  auto* to = static_cast<Bits*>(y.raw());
  cpu::LowestPosition bad;
  for_each_row({&base, &index, &y}, [&](const auto& offset, const auto& stride, std::int64_t n) {
    const Bits* a = from + offset[0];
    const std::int64_t* i = wanted + offset[1];
    Bits* b = to + offset[2];
    if (stride[1] == 0) {  // the whole row uses one index
      if (!cpu::is_inside(*i, count)) return bad.add(offset[1]);
      a += *i * step;
      if (stride[0] == 1 && stride[2] == 1) {
        std::memcpy(b, a, static_cast<std::size_t>(n) * sizeof(Bits));
      } else {
        for (std::int64_t k = 0; k < n; ++k) b[k * stride[2]] = a[k * stride[0]];
      }
      return;
    }
    // Works piece by piece, so a piece's indices are still in the nearest cache after they have been checked: 512 of
    // them take 4 KiB.
    constexpr std::int64_t piece = 512;
    for (std::int64_t first = 0; first < n; first += piece) {
      const std::int64_t count_here = std::min(piece, n - first);
      const std::int64_t* here = i + first * stride[1];
      if (!are_inside(here, stride[1], count_here, count)) {
        std::int64_t k = 0;
        while (cpu::is_inside(here[k * stride[1]], count)) ++k;
        return bad.add(offset[1] + (first + k) * stride[1]);
      }
      take(a + first * stride[0], stride[0], step, here, stride[1], b + first * stride[2], stride[2], count_here);
    }
  });
  return bad.position();
}

}  // namespace

std::int64_t CpuBackend::gather(const Array& x, int dim, const Array& index, const char*, const Array& y) {
  return dispatch_bits(x.dtype(), [&](auto bits) { return gather_bits<decltype(bits)>(x, dim, index, y); });
}

}  // namespace tandem

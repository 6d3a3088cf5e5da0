#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/reduce_blocks.h>
#include <tandem/core/cpu/reduce_walk.h>

#include <memory>

namespace tandem {

namespace {

// The position of the first number of the row that equals `value`, where a NaN equals a NaN. REQUIRES: there is such a
// number.
template <class C, class T>
std::int64_t first_equal(const T* x, std::int64_t n, std::int64_t stride, C value) {
  const auto equals = [value](C v) { return v == value || (is_nan(v) && is_nan(value)); };
  std::int64_t i = 0;
  if (stride == 1) {
    constexpr std::int64_t chunk = 64;
    for (; i + chunk <= n; i += chunk) {
      int found = 0;
      for (std::int64_t j = 0; j < chunk; ++j) found |= equals(static_cast<C>(x[i + j]));
      if (found) break;
    }
  }
  while (!equals(static_cast<C>(x[i * stride]))) ++i;
  return i;
}

// Searches a block of a row. A fast pass finds the largest number. Only if it is better than `best`, a second pass
// finds its position.
template <bool largest, class T>
void search_row(const T* x, std::int64_t n, std::int64_t stride, std::int64_t first, Extreme<T, largest>& best) {
  using C = compute_t<T>;
  const C value = static_cast<C>(cpu::total_of_row(cpu::ExtremeLanes<T, largest, false>{}, x, n, stride));
  Extreme<T, largest> found{value, std::numeric_limits<std::int64_t>::max()};
  Extreme<T, largest> merged = best;
  merged.merge(found);
  if (merged.index != found.index) return;  // not better than before; an equal number that comes later does not count
  best = {value, first + first_equal(x, n, stride, value)};
}

// Searches columns side by side.
template <bool largest, class T>
void search_columns(const T* x, std::int64_t columns, std::int64_t rows, std::int64_t row_stride, std::int64_t first,
                    Extreme<T, largest>* best) {
  using C = cpu::lane_t<T>;
  using Index = cpu::mask_t<C>;
  constexpr std::int64_t wide = 128;
  // When columns are few and dense, several rows are taken together as one wide row.
  const std::int64_t together = row_stride == columns && columns <= wide / 4 ? wide / columns : 1;
  if (together > 1 && rows >= 2 * together) {
    Extreme<T, largest> of_wide[wide];
    const std::int64_t n = rows / together;
    search_columns(x, columns * together, n, row_stride * together, 0, of_wide);
    for (std::int64_t i = 0; i < together; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto& found = of_wide[i * columns + j];
        best[j].merge({found.value, first + found.index * together + i});
      }
    }
    if (n * together < rows)
      search_columns(x + n * together * row_stride, columns, rows - n * together, row_stride, first + n * together,
                     best);
    return;
  }
  C values[cpu::column_block];
  Index indices[cpu::column_block] = {};
  for (std::int64_t j = 0; j < columns; ++j) values[j] = static_cast<C>(x[j]);
  constexpr std::int64_t block = 32;  // over so many rows, what was found so far stays in registers
  for (std::int64_t begin = 1; begin < rows; begin += block) {
    const std::int64_t end = std::min(rows, begin + block);
    const auto take = [&]<int L, int count>(std::int64_t j) {
      cpu::vec<C, L> value[count];
      cpu::vec<Index, L> index[count];
      for (int k = 0; k < count; ++k) {
        value[k] = cpu::load_raw<C, L>(values + j + k * L);
        index[k] = cpu::load_raw<Index, L>(indices + j + k * L);
      }
      for (std::int64_t r = begin; r < end; ++r) {
        const auto row = cpu::same<L>(static_cast<Index>(r));
        for (int k = 0; k < count; ++k) {
          const auto v = cpu::load_lanes<C, L>(x + r * row_stride + j + k * L);
          const auto better = ((largest ? v > value[k] : v < value[k]) | (v != v)) & (value[k] == value[k]);
          value[k] = better ? v : value[k];
          index[k] = better ? row : index[k];
        }
      }
      for (int k = 0; k < count; ++k) {
        std::memcpy(values + j + k * L, &value[k], sizeof value[k]);
        std::memcpy(indices + j + k * L, &index[k], sizeof index[k]);
      }
    };
    constexpr int L = cpu::register_bytes / sizeof(C);
    std::int64_t j = 0;
    for (; j + 4 * L <= columns; j += 4 * L) take.template operator()<L, 4>(j);
    for (; j + L <= columns; j += L) take.template operator()<L, 1>(j);
    for (; j < columns; ++j) take.template operator()<1, 1>(j);
  }
  for (std::int64_t j = 0; j < columns; ++j)
    best[j].merge({static_cast<compute_t<T>>(values[j]), first + static_cast<std::int64_t>(indices[j])});
}

template <bool largest, class T>
void search_along(const cpu::ReduceWalk& walk, const Array& x, const Array& values, const Array& indices) {
  using Best = Extreme<T, largest>;
  const T* data = static_cast<const T*>(x.raw());
  T* to_values = static_cast<T*>(values.raw());
  std::int64_t* to_indices = static_cast<std::int64_t*>(indices.raw());
  const auto& kept = walk.kept;
  const std::int64_t n = walk.reduced.count;
  const std::int64_t stride = walk.reduced.ndim > 0 ? walk.reduced.dims[0].stride : 1;
  const auto finish = [&](std::int64_t o, const Best& best) {
    to_values[o] = static_cast<T>(best.value);
    to_indices[o] = best.index;
  };
  if (walk.by_columns()) {
    const auto& last = kept.dims[kept.ndim - 1];
    const std::int64_t width = std::min(last.size, cpu::column_block), blocks = (last.size + width - 1) / width;
    constexpr std::int64_t rows_at_once = 1 << 20;  // rows are counted in 32 bits
    cpu::parallel_for(kept.count / last.size * blocks, kept.count * n, [&](std::int64_t item) {
      Best best[cpu::column_block];
      const std::int64_t first = item % blocks * width, columns = std::min(width, last.size - first);
      const T* base = data + kept.offset(item / blocks, 1) + first;
      for (std::int64_t r = 0; r < n; r += rows_at_once)
        search_columns(base + r * stride, columns, std::min(rows_at_once, n - r), stride, r, best);
      const std::int64_t o = kept.out_offset(item / blocks, 1) + first * last.out_stride;
      for (std::int64_t j = 0; j < columns; ++j) finish(o + j * last.out_stride, best[j]);
    });
    return;
  }
  const auto search_part = [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
    Best best;
    const T* base = data + kept.offset(o);
    for (std::int64_t i = begin; i < end; i += cpu::row_block)
      search_row(base + i * stride, std::min(cpu::row_block, end - i), stride, i, best);
    return best;
  };
  const std::int64_t parts = (n + cpu::part_size - 1) / cpu::part_size;
  if (parts == 1) {
    cpu::parallel_for(kept.count, kept.count * n,
                      [&](std::int64_t o) { finish(kept.out_offset(o), search_part(o, 0, n)); });
    return;
  }
  const std::unique_ptr<Best[]> found(new Best[static_cast<std::size_t>(kept.count * parts)]);
  cpu::parallel_for(kept.count * parts, kept.count * n, [&](std::int64_t i) {
    const std::int64_t begin = i % parts * cpu::part_size;
    found[static_cast<std::size_t>(i)] = search_part(i / parts, begin, std::min(n, begin + cpu::part_size));
  });
  for (std::int64_t o = 0; o < kept.count; ++o) {
    Best* best = &found[static_cast<std::size_t>(o * parts)];
    for (std::int64_t part = 1; part < parts; ++part) best->merge(best[part]);
    finish(kept.out_offset(o), *best);
  }
}

}  // namespace

void CpuBackend::search(bool largest, const Array& x, int, const Array& values, const Array& indices) {
  const cpu::ReduceWalk walk(x, values);
  dispatch(x.dtype(), [&](auto type) {
    using T = std::conditional_t<std::is_same_v<decltype(type), bool>, std::uint8_t, decltype(type)>;
    if (largest) search_along<true, T>(walk, x, values, indices);
    else search_along<false, T>(walk, x, values, indices);
  });
}

}  // namespace tandem

#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/index_positions.h>
#include <tandem/core/cpu/parallel.h>

#include <algorithm>
#include <array>

namespace tandem {

namespace {

struct Put {
  template <class T>
  void operator()(T& y, T source) const {
    y = source;
  }
};
struct Add {
  template <class T>
  void operator()(T& y, T source) const {
    y += source;
  }
};

// The size of one dimension, and the strides of y, index and source in it.
struct Step {
  std::int64_t size = 1, y = 0, index = 0, source = 0;
};

// Only one thread writes to a given element of y, in the order of the indices, whatever the number of threads, so a sum
// is the same in each run. The work is therefore divided along the dimensions that are not indexed. `line` is the
// innermost of them, and it is divided into chunks.
template <class T, class F>
std::int64_t scatter_with(const Array& source, int dim, const Array& index, const Array& y, F f) {
  const Shape& shape = index.shape();
  const auto step = [&](int d) { return Step{shape[d], y.strides()[d], index.strides()[d], source.strides()[d]}; };
  const Step along = step(dim);
  Step line;
  std::array<Step, Dims::max_ndim> others;
  int other_count = 0;
  for (int d = shape.ndim() - 1, found = 0; d >= 0; --d) {
    if (d == dim || shape[d] == 1) continue;
    if (!found++) line = step(d);
    else others[static_cast<std::size_t>(other_count++)] = step(d);
  }
  std::int64_t lines = 1;
  for (int i = 0; i < other_count; ++i) lines *= others[static_cast<std::size_t>(i)].size;
  constexpr std::int64_t least = 64 / sizeof(T);
  const std::int64_t threads = omp_get_max_threads();
  const std::int64_t chunks = lines >= threads ? 1 : std::clamp<std::int64_t>(line.size / least, 1, threads);
  const std::int64_t chunk = (line.size + chunks - 1) / chunks;
  const std::int64_t count = y.shape()[dim], stride = y.strides()[dim];
  T* to = static_cast<T*>(y.raw());
  const T* from = static_cast<const T*>(source.raw());
  const auto* wanted = static_cast<const std::int64_t*>(index.raw());
  cpu::LowestPosition bad;
  cpu::parallel_for(lines * chunks, index.numel(), [&](std::int64_t unit) {
    const std::int64_t first = unit % chunks * chunk, n = std::min(chunk, line.size - first);
    std::int64_t a = first * line.y, i = first * line.index, b = first * line.source;
    for (std::int64_t rest = unit / chunks, d = 0; d < other_count; ++d) {
      const Step& other = others[static_cast<std::size_t>(d)];
      const std::int64_t at = rest % other.size;
      rest /= other.size;
      a += at * other.y;
      i += at * other.index;
      b += at * other.source;
    }
    if (along.index < line.index) {  // line by line, in the memory order of the indices
      for (std::int64_t k = 0; k < n; ++k, a += line.y, i += line.index, b += line.source) {
        for (std::int64_t j = 0; j < along.size; ++j) {
          const std::int64_t at = wanted[i + j * along.index];
          if (!cpu::is_inside(at, count)) return bad.add(i + j * along.index);
          f(to[a + at * stride], from[b + j * along.source]);
        }
      }
      return;
    }
    for (std::int64_t j = 0; j < along.size; ++j, i += along.index, b += along.source) {
      if (line.index == 0) {  // the whole line uses one index
        if (!cpu::is_inside(wanted[i], count)) return bad.add(i);
        T* row = to + a + wanted[i] * stride;
        const T* add = from + b;
        if (line.y == 1 && line.source == 1) {
#pragma omp simd
          for (std::int64_t k = 0; k < n; ++k) f(row[k], add[k]);
        } else {
          for (std::int64_t k = 0; k < n; ++k) f(row[k * line.y], add[k * line.source]);
        }
      } else {
        for (std::int64_t k = 0; k < n; ++k) {
          const std::int64_t at = wanted[i + k * line.index];
          if (!cpu::is_inside(at, count)) return bad.add(i + k * line.index);
          f(to[a + k * line.y + at * stride], from[b + k * line.source]);
        }
      }
    }
  });
  return bad.position();
}

}  // namespace

std::int64_t CpuBackend::scatter(const Array& source, int dim, const Array& index, bool add, const char*,
                                 const Array& y) {
  if (!add)
    return dispatch_bits(y.dtype(),
                         [&](auto bits) { return scatter_with<decltype(bits)>(source, dim, index, y, Put{}); });
  switch (y.dtype()) {
    case DType::f32: return scatter_with<float>(source, dim, index, y, Add{});
    case DType::f64: return scatter_with<double>(source, dim, index, y, Add{});
    // The integers are treated as unsigned, so a sum that does not fit wraps around.
    case DType::i64: return scatter_with<std::uint64_t>(source, dim, index, y, Add{});
    case DType::i32: return scatter_with<std::uint32_t>(source, dim, index, y, Add{});
    default: detail::fail("scatter: no sums of ", y.dtype());
  }
}

}  // namespace tandem

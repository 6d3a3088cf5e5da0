#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/loops.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/reductions.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace tandem {

namespace {

std::int64_t offset_of(std::int64_t index, const Shape& shape, const Strides& strides) {
  return tandem::offset_of(index, shape.rank(), shape.begin(), strides.begin());
}

// Calls f(out, offset, stride, n) for each output element and each innermost row of what reduces into it.
template <class Start, class Row, class Finish>
void reduce_rows(const ReducePlan& plan, Start start, Row row, Finish finish) {
  const std::int64_t outputs = plan.outputs(), count = plan.count();
  const int last = plan.reduced_shape.rank() - 1;
  const std::int64_t n = last < 0 ? 1 : plan.reduced_shape[last];
  const std::int64_t stride = last < 0 ? 1 : plan.reduced_strides[last];
  cpu::parallel_for(outputs, outputs * count, [&](std::int64_t o) {
    const std::int64_t base = offset_of(o, plan.kept_shape, plan.kept_strides);
    auto state = start();
    for (std::int64_t i = 0; i < count; i += n)
      row(state, base + offset_of(i, plan.reduced_shape, plan.reduced_strides), stride, n);
    finish(o, state);
  });
}

// Several sums side by side: the processor need not wait for one addition before it begins the next.
template <class Sum, class C, class T>
Sum sum_of_row(const T* row, std::int64_t n) {
  constexpr int lanes = 16;
  Sum partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) partial[lane] += static_cast<C>(row[i + lane]);
  Sum sum = 0;
  for (; i < n; ++i) sum += static_cast<C>(row[i]);
  for (const Sum each : partial) sum += each;
  return sum;
}

// Where neighbours in memory belong to different outputs: calls finish(o, sum) for each output, having gone through memory
// row by row.
template <class Sum, class C, class T, class Finish>
void sum_columns(const ReducePlan& plan, const T* data, Finish finish) {
  constexpr std::int64_t width = 128;
  const std::int64_t outputs = plan.outputs(), count = plan.count();
  const std::int64_t columns = plan.kept_shape[plan.kept_shape.rank() - 1];
  const std::int64_t blocks = (columns + width - 1) / width;
  cpu::parallel_for(outputs / columns * blocks, outputs * count, [&](std::int64_t block) {
    const std::int64_t first = block % blocks * width, n = std::min(width, columns - first);
    const std::int64_t o = block / blocks * columns + first;
    const T* base = data + offset_of(o, plan.kept_shape, plan.kept_strides);
    Sum sums[width] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const T* row = base + offset_of(i, plan.reduced_shape, plan.reduced_strides);
      for (std::int64_t j = 0; j < n; ++j) sums[j] += static_cast<C>(row[j]);
    }
    for (std::int64_t j = 0; j < n; ++j) finish(o + j, sums[j]);
  });
}

}  // namespace

void CpuBackend::reduce(Reduction op, const Array& x, const Array& y) {
  const ReducePlan plan(x, y);
  const double scale = op == Reduction::mean ? 1.0 / static_cast<double>(plan.count()) : 1.0;
  dispatch(x.dtype(), [&](auto type) {
    using T = decltype(type);
    using C = compute_t<T>;
    const T* data = static_cast<const T*>(x.raw());
    if (op == Reduction::sum || op == Reduction::mean) {
      dispatch(y.dtype(), [&](auto result) {
        using Out = decltype(result);
        Out* out = static_cast<Out*>(y.raw());
        const auto finish = [out, scale, op](std::int64_t o, typename Sum<T>::Number sum) {
          const auto convert = [](auto value) {
            return static_cast<Out>(static_cast<compute_t<Out>>(value));
          };
          out[o] = op == Reduction::mean ? convert(sum * scale) : convert(sum);
        };
        if (plan.keeps_neighbours_apart()) return sum_columns<typename Sum<T>::Number, C>(plan, data, finish);
        reduce_rows(
            plan, [] { return typename Sum<T>::Number(0); },
            [data](typename Sum<T>::Number& sum, std::int64_t offset, std::int64_t stride, std::int64_t n) {
              if (stride == 1) {
                sum += sum_of_row<typename Sum<T>::Number, C>(data + offset, n);
              } else {
                for (std::int64_t i = 0; i < n; ++i) sum += static_cast<C>(data[offset + i * stride]);
              }
            },
            finish);
      });
      return;
    }
    T* values = op == Reduction::max ? static_cast<T*>(y.raw()) : nullptr;
    std::int64_t* indices = op == Reduction::argmax ? static_cast<std::int64_t*>(y.raw()) : nullptr;
    struct Search {
      Largest<T> largest;
      std::int64_t seen = 0;
    };
    reduce_rows(
        plan, [] { return Search{}; },
        [data](Search& search, std::int64_t offset, std::int64_t stride, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i) search.largest.add(data[offset + i * stride], search.seen++);
        },
        [values, indices](std::int64_t o, const Search& search) {
          if (values) values[o] = static_cast<T>(search.largest.value);
          if (indices) indices[o] = search.largest.index;
        });
  });
}

}  // namespace tandem

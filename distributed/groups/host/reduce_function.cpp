#include <tandem/core/formulas/functors/arithmetic.h>
#include <tandem/distributed/groups/host/reduce_function.h>

#include <algorithm>

namespace tandem::distributed {
namespace {

// Reduces one block at a time: the accumulator stays in cache, and each pass is a plain loop over two arrays. `prepare`
// is applied to each element of a source before it is reduced.
template <class T, class Op, class Prepare>
void reduce(Prepare prepare, void* out, const void* const* sources, int count, std::size_t elements) {
  using C = compute_t<T>;
  constexpr std::size_t block = 1024;
  C accumulator[block];
  for (std::size_t begin = 0; begin < elements; begin += block) {
    const std::size_t n = std::min(block, elements - begin);
    const T* first = static_cast<const T*>(sources[0]) + begin;
    for (std::size_t i = 0; i < n; ++i) accumulator[i] = prepare(static_cast<C>(first[i]));
    for (int s = 1; s < count; ++s) {
      const T* source = static_cast<const T*>(sources[s]) + begin;
      for (std::size_t i = 0; i < n; ++i) {
        accumulator[i] = Op{}.value(accumulator[i], prepare(static_cast<C>(source[i])));
      }
    }
    T* result = static_cast<T*>(out) + begin;
    for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<T>(accumulator[i]);
  }
}

template <class T, class Op>
void reduce_all(void* out, const void* const* sources, int count, std::size_t elements) {
  reduce<T, Op>([](auto value) { return value; }, out, sources, count, elements);
}

template <class T>
void mean(void* out, const void* const* sources, int count, std::size_t elements) {
  using C = compute_t<T>;
  const C factor = static_cast<C>(1.0 / count);
  reduce<T, functors::Add>([factor](C value) { return static_cast<C>(value * factor); }, out, sources, count, elements);
}

}  // namespace

ReduceFunction reduce_function(DType dtype, ReduceOp op) {
  return dispatch(dtype, [op](auto zero) -> ReduceFunction {
    using T = decltype(zero);
    switch (op) {
      case ReduceOp::sum: return &reduce_all<T, functors::Add>;
      case ReduceOp::mean: return &mean<T>;
      case ReduceOp::product: return &reduce_all<T, functors::Mul>;
      case ReduceOp::min: return &reduce_all<T, functors::Minimum>;
      case ReduceOp::max: return &reduce_all<T, functors::Maximum>;
    }
    detail::fail("invalid reduction ", static_cast<int>(op));
  });
}

void scale(void* data, DType dtype, std::size_t elements, double factor) {
  dispatch_floating(dtype, "mean", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* values = static_cast<T*>(data);
    for (std::size_t i = 0; i < elements; ++i) {
      values[i] = static_cast<T>(static_cast<C>(values[i]) * static_cast<C>(factor));
    }
  });
}

}  // namespace tandem::distributed

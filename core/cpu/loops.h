// Element-wise loops over arrays of the same shape, distributed over threads.
#pragma once

#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/formulas/element_functions.h>

#include <array>
#include <utility>

namespace tandem::cpu {

// out[b * length + i] = f(in[0][b * step[0] + i], in[1][b * step[1] + i], ...) for b in [0, count), i in [0, length)
// Every operation is compiled only into this loop, and the compiler vectorises the loop over i. `out` may be one of the
// inputs.
struct DenseLoop {
  // If a step is 0, the same block of that input is read again for every b.
  struct Blocks {
    std::int64_t count, length;
    std::array<std::int64_t, 3> step{};  // one for each input, in elements
  };
  const void* function;
  void (*run)(const void* function, const Blocks& blocks, void* out, const void* const* in);
  bool is_copy;  // f(x) = x, and both arrays have the same type
};

// Runs the loop on K arrays of any strides; the last one is the output. If an array is not a dense run of the type with
// which the loop computes, pieces of it pass through a buffer in the nearest cache: strided elements are made adjacent,
// a repeated operand is expanded to one block, and bf16 and f16 are converted to float if is_float says that the loop
// expects floats.
template <int K>
void run(const DenseLoop& loop, const std::array<const Array*, K>& arrays, const std::array<bool, K>& is_float);

// The loops for elementwise::map and similar functions (core/array/element_dispatch.h): transform<Out, In>(inputs...,
// out, f) sets out[i] = f(inputs[i]...).
struct Loops {
  // The type used for computation on elements of type T. The same loop serves f32, bf16 and f16.
  template <class T>
  using element_t = compute_t<T>;

  template <class Out, class F>
  static void transform(const Array& out, F f) {
    start<Out>(f, {&out});
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& out, F f) {
    start<Out, In>(f, {&a, &out});
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& out, F f) {
    start<Out, In, In>(f, {&a, &b, &out});
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& c, const Array& out, F f) {
    start<Out, In, In, In>(f, {&a, &b, &c, &out});
  }
  // out[i] = f(condition[i], a[i], b[i])
  template <class T, class F>
  static void select(const Array& condition, const Array& a, const Array& b, const Array& out, F f) {
    start<T, bool, T, T>(f, {&condition, &a, &b, &out});
  }

 private:
  template <class Out, class... In, class F>
  static void start(const F& f, const std::array<const Array*, sizeof...(In) + 1>& arrays) {
    run<sizeof...(In) + 1>({&f, dense<F, Out, In...>, std::is_same_v<F, Keep>}, arrays,
                           {std::is_same_v<In, float>..., std::is_same_v<Out, float>});
  }

  template <class F, class Out, class... In>
  static void dense(const void* function, const DenseLoop::Blocks& blocks, void* out, const void* const* in) {
    walk<F, Out, In...>(*static_cast<const F*>(function), blocks, static_cast<Out*>(out), in,
                        std::index_sequence_for<In...>{});
  }
  template <class F, class Out, class... In, std::size_t... k>
  static void walk(const F& f, const DenseLoop::Blocks& blocks, Out* out, const void* const* in,
                   std::index_sequence<k...> inputs) {
    walk_pointers(f, blocks, inputs, out, static_cast<const In*>(in[k])...);
  }
  template <class F, std::size_t... k, class Out, class... In>
  static void walk_pointers(F f, DenseLoop::Blocks blocks, std::index_sequence<k...>, Out* out, const In*... in) {
    const std::int64_t n = blocks.length;
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      // An output that is also an input is read only at the position that is written.
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
      for (std::int64_t i = 0; i < n; ++i) out[i] = f(in[i]...);
      out += n;
      ((in += blocks.step[k]), ...);
    }
  }
};

}  // namespace tandem::cpu

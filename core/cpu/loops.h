// Loops over arrays of one shape, spread over threads.
#pragma once

#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/loop_plan.h>

#include <algorithm>
#include <array>

namespace tandem::cpu {

// Calls row(offsets, strides, n) for each innermost row of n elements; offsets and strides are in elements, one per array.
// Rows are spread over threads, and a single long row is cut into pieces.
template <int K, class Row>
void for_each_row(const std::array<const Array*, K>& arrays, Row row) {
  const std::int64_t numel = arrays[K - 1]->numel();
  if (numel == 0) return;
  const LoopPlan<K> plan(arrays);
  const std::int64_t inner = plan.size[plan.rank - 1];
  const auto& strides = plan.stride[plan.rank - 1];
  if (plan.rank == 1) {
    const std::int64_t piece = parallel_grain / 2;
    const std::int64_t pieces = (inner + piece - 1) / piece;
    parallel_for(pieces, numel, [&](std::int64_t p) {
      std::array<std::int64_t, K> offsets;
      for (int k = 0; k < K; ++k) offsets[k] = p * piece * strides[k];
      row(offsets, strides, std::min(piece, inner - p * piece));
    });
    return;
  }
  const std::int64_t rows = numel / inner;
  parallel_for(rows, numel, [&](std::int64_t r) {
    std::array<std::int64_t, K> offsets{};
    std::int64_t rest = r;
    for (int d = plan.rank - 2; d >= 0; --d) {
      const std::int64_t i = rest % plan.size[d];
      rest /= plan.size[d];
      for (int k = 0; k < K; ++k) offsets[k] += i * plan.stride[d][k];
    }
    row(offsets, strides, inner);
  });
}

// out[i] = f(in[i]...) element by element, for elementwise::map and the others. The common strides (dense, or a repeated
// operand) get loops of their own, which the compiler vectorises.
struct Loops {
  template <class Out, class F>
  static void transform(const Array& out, F f) {
    Out* po = static_cast<Out*>(out.raw());
    for_each_row<1>({&out}, [=](const auto& offset, const auto& stride, std::int64_t n) {
      Out* y = po + offset[0];
      if (stride[0] == 1) {
        for (std::int64_t i = 0; i < n; ++i) y[i] = f();
      } else {
        for (std::int64_t i = 0; i < n; ++i) y[i * stride[0]] = f();
      }
    });
  }
  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& out, F f) {
    const In* pa = static_cast<const In*>(a.raw());
    Out* po = static_cast<Out*>(out.raw());
    for_each_row<2>({&a, &out}, [=](const auto& offset, const auto& stride, std::int64_t n) {
      const In* x = pa + offset[0];
      Out* y = po + offset[1];
      if (stride[0] == 1 && stride[1] == 1) {
        for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
      } else {
        for (std::int64_t i = 0; i < n; ++i) y[i * stride[1]] = f(x[i * stride[0]]);
      }
    });
  }

  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& out, F f) {
    const In* pa = static_cast<const In*>(a.raw());
    const In* pb = static_cast<const In*>(b.raw());
    Out* po = static_cast<Out*>(out.raw());
    for_each_row<3>({&a, &b, &out}, [=](const auto& offset, const auto& stride, std::int64_t n) {
      const In* x = pa + offset[0];
      const In* y = pb + offset[1];
      Out* z = po + offset[2];
      if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1) {
        for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
      } else if (stride[0] == 1 && stride[1] == 0 && stride[2] == 1) {
        const In repeated = *y;
        for (std::int64_t i = 0; i < n; ++i) z[i] = f(x[i], repeated);
      } else {
        for (std::int64_t i = 0; i < n; ++i) z[i * stride[2]] = f(x[i * stride[0]], y[i * stride[1]]);
      }
    });
  }

  template <class Out, class In, class F>
  static void transform(const Array& a, const Array& b, const Array& c, const Array& out, F f) {
    const In* pa = static_cast<const In*>(a.raw());
    const In* pb = static_cast<const In*>(b.raw());
    const In* pc = static_cast<const In*>(c.raw());
    Out* po = static_cast<Out*>(out.raw());
    for_each_row<4>({&a, &b, &c, &out}, [=](const auto& offset, const auto& stride, std::int64_t n) {
      const In* x = pa + offset[0];
      const In* y = pb + offset[1];
      const In* z = pc + offset[2];
      Out* w = po + offset[3];
      if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1 && stride[3] == 1) {
        for (std::int64_t i = 0; i < n; ++i) w[i] = f(x[i], y[i], z[i]);
      } else {
        for (std::int64_t i = 0; i < n; ++i)
          w[i * stride[3]] = f(x[i * stride[0]], y[i * stride[1]], z[i * stride[2]]);
      }
    });
  }
};

}  // namespace tandem::cpu

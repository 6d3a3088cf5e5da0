// Rows of arrays of one shape, spread over threads: for loops that are more than a function of each element (core/cpu/loops.h).
#pragma once

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

}  // namespace tandem::cpu

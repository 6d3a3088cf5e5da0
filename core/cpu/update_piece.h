// The loop of an optimizer's rule (core/formulas/update_rules.h) over adjacent numbers.
#pragma once

#include <tandem/core/formulas/update_rules.h>

#include <cstdint>
#include <utility>

// Precedes a loop whose iterations are independent. A program may be compiled without OpenMP.
#if defined(_OPENMP)
#define TANDEM_SIMD _Pragma("omp simd")
#elif defined(__clang__)
#define TANDEM_SIMD _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_SIMD _Pragma("GCC ivdep")
#endif

namespace tandem::cpu {

// Updates the numbers [begin, end) of a segment.
template <class Rule>
void update_piece(const Rule& rule, const UpdateSegment& segment, std::int64_t begin, std::int64_t end) {
  // Copies on this thread's stack: nothing that the loop writes can change them.
  const UpdateSegment s = segment;
  const auto update = update_of(rule, s.count ? *s.count : 0, s.is_first);
  [&]<std::size_t... part>(std::index_sequence<part...>) {
    TANDEM_SIMD
    for (std::int64_t i = begin; i < end; ++i) update(s.parameter[i], s.gradient[i], s.state[part][i]...);
  }
  (std::make_index_sequence<Rule::state_names.size()>{});
}

}  // namespace tandem::cpu

#undef TANDEM_SIMD

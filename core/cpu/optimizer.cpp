#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/segments_norm.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem {

namespace {

constexpr std::int64_t piece = cpu::parallel_grain / 2;  // numbers that a thread takes at once

// Calls f(begin, end) for pieces of [0, numel).
template <class F>
void for_each_piece(std::int64_t numel, F f) {
  cpu::parallel_for((numel + piece - 1) / piece, numel,
                    [&](std::int64_t p) { f(p * piece, std::min(numel, (p + 1) * piece)); });
}

template <class Rule, std::size_t... slot>
void update_segment(const UpdateSegment& s, const Rule& rule, std::index_sequence<slot...>) {
  if constexpr (Rule::counts) ++*s.count;
  const auto update_of_segment = rule.at(s.count ? *s.count : 0, s.is_first);
  for_each_piece(s.numel, [&](std::int64_t begin, std::int64_t end) {
    const auto update = update_of_segment;  // of this thread: nothing that the loop writes can change it
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) update(s.parameter[i], s.gradient[i], s.state[slot][i]...);
  });
}

template <NormKind kind>
NormSum<kind> norm_of(const float* numbers, std::int64_t begin, std::int64_t end, double p) {
  constexpr int lanes = 16;
  NormSum<kind> sums[lanes];
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) sums[lane].add(numbers[i + lane], p);
  for (; i < end; ++i) sums[0].add(numbers[i], p);
  for (int lane = 1; lane < lanes; ++lane) sums[0].merge(sums[lane]);
  return sums[0];
}

}  // namespace

void CpuBackend::update(std::span<const UpdateSegment> segments, const UpdateRule& rule) {
  std::visit(
      [&](const auto& r) {
        for (const UpdateSegment& s : segments)
          update_segment(s, r, std::make_index_sequence<std::decay_t<decltype(r)>::slots.size()>{});
      },
      rule);
}

void CpuBackend::segments_norm(std::span<const Segment> segments, double p, const Array& norm) {
  with_norm_kind(p, [&](auto kind) {
    NormSum<kind> total;
    std::vector<NormSum<kind>> parts;  // merged in order: the same norm with any number of threads
    for (const Segment& s : segments) {
      parts.assign(static_cast<std::size_t>((s.numel + piece - 1) / piece), {});
      for_each_piece(s.numel, [&](std::int64_t begin, std::int64_t end) {
        parts[begin / piece] = norm_of<kind>(s.numbers, begin, end, p);
      });
      for (const auto& part : parts) total.merge(part);
    }
    *norm.data<float>() = total.norm(p);
  });
}

}  // namespace tandem

#include <tandem/core/cpu/cpu_backend.h>
#include <tandem/core/cpu/parallel.h>
#include <tandem/core/cpu/update_piece.h>
#include <tandem/core/formulas/segments_norm.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace tandem {

namespace {

constexpr std::int64_t piece = cpu::parallel_grain / 2;  // numbers that a thread processes at a time

// The numbers of all segments, one segment after the other, divided into pieces of equal size. Threads can thus share
// many small segments as well as one large segment. Each segment begins at a cache line boundary, and is divided only
// at such boundaries.
template <class Segment>
class Pieces {
 public:
  explicit Pieces(std::span<const Segment> segments) : segments_(segments) {
    ends_.reserve(segments.size());
    for (const Segment& s : segments) ends_.push_back(end() + (s.numel + line - 1) / line * line);
  }

  std::int64_t count() const { return (end() + piece - 1) / piece; }

  // Calls f(p, index, begin, end) for piece p and the numbers [begin, end) of segment `index`. The segments of a piece
  // are processed in order.
  template <class F>
  void for_each(F f) const {
    cpu::parallel_for(count(), end(), [&](std::int64_t p) {
      const std::int64_t last = std::min(end(), (p + 1) * piece);
      auto s = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), p * piece) - ends_.begin());
      for (std::int64_t at = p * piece; at < last; ++s) {
        const std::int64_t first = s == 0 ? 0 : ends_[s - 1], stop = std::min(last, ends_[s]);
        f(p, s, at - first, std::min(stop - first, segments_[s].numel));
        at = stop;
      }
    });
  }

 private:
  static constexpr std::int64_t line = 16;  // numbers in a cache line

  std::int64_t end() const { return ends_.empty() ? 0 : ends_.back(); }

  std::span<const Segment> segments_;
  std::vector<std::int64_t> ends_;  // the end of each segment
};

using cpu::update_piece;
void update_piece(const OwnRule& rule, const UpdateSegment& segment, std::int64_t begin, std::int64_t end) {
  rule.update(rule.numbers.data(), segment, begin, end);
}

bool is_left_out(const UpdateSegment& s) { return s.while_finite && !std::isfinite(*s.while_finite); }

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

void CpuBackend::update(std::span<const UpdateSegment> segments, const UpdateRule& rule, const void*) {
  std::visit(
      [&](const auto& r) {
        if (r.counts) {
          for (const UpdateSegment& s : segments)
            if (!is_left_out(s)) ++*s.count;
        }
        Pieces(segments).for_each([&](std::int64_t, std::size_t index, std::int64_t begin, std::int64_t end) {
          if (!is_left_out(segments[index])) update_piece(r, segments[index], begin, end);
        });
      },
      rule.any());
}

// Does nothing, because only a GPU reads a rule from memory.
void CpuBackend::write_rule(const UpdateRule&, void*) {}

void CpuBackend::segments_norm(std::span<const Segment> segments, double p, const Array& norm) {
  with_norm_kind(p, [&](auto kind) {
    const Pieces pieces(segments);
    // The parts are merged in order, so the norm is the same for any number of threads.
    std::vector<NormSum<kind>> parts(static_cast<std::size_t>(pieces.count()));
    pieces.for_each([&](std::int64_t part, std::size_t index, std::int64_t begin, std::int64_t end) {
      parts[static_cast<std::size_t>(part)].merge(norm_of<kind>(segments[index].numbers, begin, end, p));
    });
    NormSum<kind> total;
    for (const auto& part : parts) total.merge(part);
    *norm.data<float>() = total.norm(p);
  });
}

}  // namespace tandem

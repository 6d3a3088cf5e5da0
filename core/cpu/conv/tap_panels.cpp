#include <tandem/core/cpu/conv/tap_panels.h>
#include <tandem/core/cpu/transpose.h>

namespace tandem::cpu {

namespace {

// The number of rows that a loop prefetches ahead. The rows of a weight are too far apart for the processor's own
// prefetcher.
constexpr std::int64_t ahead = 2;
template <int writes>
void prefetch(const float* from, std::int64_t numbers) {
  for (std::int64_t i = 0; i < numbers; i += 16) __builtin_prefetch(from + i, writes);
}

}  // namespace

TapPanels::TapPanels(const Kernels& kernels, Range outputs, Range inputs)
    : kernels_(kernels),
      outputs_(outputs),
      inputs_(inputs),
      taps_(kernels.taps()),
      width_(std::min(panel, padded(outputs.count))) {}

void TapPanels::read(std::int64_t panel) const {
  const auto [first, count] = outputs_of(panel);
  const auto* const from = static_cast<const float*>(kernels_.weight.raw());
  float* const to = at(panel, 0);
  if (count < width_) clear(panel);
  if (!kernels_.is_rotated)
    return transpose(from + first * row() + inputs_.first * taps_, count, inputs_.count * taps_, row(), to, width_);
  for (std::int64_t c = 0; c < inputs_.count; ++c) {
    const std::int64_t begin = (inputs_.first + c) * row() + first * taps_, end = begin + count * taps_;
    if (c + ahead < inputs_.count) prefetch<0>(from + begin + ahead * row(), count * taps_);
    transpose(from + begin, count, taps_, taps_, at(panel, c), width_, kernels_.weight.numel() - end);
  }
}

void TapPanels::write(std::int64_t panel) const {
  const auto [first, count] = outputs_of(panel);
  auto* const to = static_cast<float*>(kernels_.weight.raw());
  if (!kernels_.is_rotated)
    return transpose(at(panel, 0), inputs_.count * taps_, count, width_, to + first * row() + inputs_.first * taps_,
                     row());
  for (std::int64_t c = 0; c < inputs_.count; ++c) {
    float* const begin = to + (inputs_.first + c) * row() + first * taps_;
    if (c + ahead < inputs_.count) prefetch<1>(begin + ahead * row(), count * taps_);
    transpose(at(panel, c), taps_, count, width_, begin, taps_);
  }
}

}  // namespace tandem::cpu

// Which elements of an image each place of a pooled one looks at. The same arithmetic on every device.
#pragma once

#include <tandem/core/base/half.h>

#include <cstdint>

namespace tandem {

// One dimension: `size` elements become `outputs`. A window's elements are begin + k * dilation for k in [0, kernel),
// as far as they lie inside of the image. Adaptive: output o has the elements from o * size / outputs, rounded down, to
// (o + 1) * size / outputs, rounded up, and `kernel` is the largest number of them.
struct PoolAxis {
  std::int64_t size = 0, outputs = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool adaptive = false;

  // Elements begin + k * dilation of the image, for k in [first, last), which may be none.
  struct Taps {
    std::int64_t begin, first, last;
    TANDEM_HOST_DEVICE std::int64_t count() const { return last - first; }
  };
  TANDEM_HOST_DEVICE Taps taps(std::int64_t output) const {
    if (adaptive) {
      const std::int64_t begin = output * size / outputs;
      return {begin, 0, ((output + 1) * size + outputs - 1) / outputs - begin};
    }
    const std::int64_t begin = output * stride - padding;
    const std::int64_t first = begin < 0 ? (dilation - 1 - begin) / dilation : 0;
    const std::int64_t inside = begin < size ? (size - begin + dilation - 1) / dilation : 0;
    const std::int64_t last = inside < kernel ? inside : kernel;
    return {begin, first, last < first ? first : last};
  }

  // The elements of a window, with those in the padding but without those beyond it (where the last window may end).
  TANDEM_HOST_DEVICE std::int64_t padded_count(std::int64_t output) const {
    const std::int64_t begin = output * stride - padding, end = size + padding;
    return end - begin < kernel ? end - begin : kernel;
  }

  // The outputs from `first` to `last` are those whose window may cover element `at`.
  struct Covering {
    std::int64_t first, last;
  };
  TANDEM_HOST_DEVICE Covering covering(std::int64_t at) const {
    if (adaptive) return {at * outputs / size, ((at + 1) * outputs - 1) / size};
    const std::int64_t end = at + padding, begin = end - (kernel - 1) * dilation;
    const std::int64_t first = begin <= 0 ? 0 : (begin + stride - 1) / stride;
    return {first, end / stride < outputs ? end / stride : outputs - 1};
  }
  // Which element of that window it is; -1 when it lies between two.
  TANDEM_HOST_DEVICE std::int64_t place(std::int64_t at, std::int64_t output) const {
    if (adaptive) return at - output * size / outputs;
    const std::int64_t distance = at + padding - output * stride;
    return distance % dilation == 0 ? distance / dilation : -1;
  }
};

struct Pooling {
  PoolAxis h, w;
  // Averages divide by the number of a window's elements: with those in the padding or without; or by `divisor` when it
  // is not 0.
  bool count_include_pad = true;
  std::int64_t divisor = 0;

  // What the average of output (oh, ow) divides by.
  TANDEM_HOST_DEVICE std::int64_t divisor_of(std::int64_t oh, std::int64_t ow) const {
    if (divisor != 0) return divisor;
    if (!h.adaptive && count_include_pad) return h.padded_count(oh) * w.padded_count(ow);
    const std::int64_t count = h.taps(oh).count() * w.taps(ow).count();
    return count > 0 ? count : 1;  // the sum of nothing is 0
  }
};

}  // namespace tandem

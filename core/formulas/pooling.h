// Says which elements of an image belong to each position of the pooled image. The arithmetic is the same on every
// device.
#pragma once

#include <tandem/core/base/half.h>

#include <cstdint>

namespace tandem {

// Pooling along one dimension: `size` elements become `outputs`. A window consists of the elements begin + k *
// dilation, for k in [0, kernel), that lie inside the image.
//
// In adaptive pooling, the window of output o begins at o * size / outputs, rounded down, and ends before
// (o + 1) * size / outputs, rounded up. `kernel` is the size of the largest window.
struct PoolAxis {
  std::int64_t size = 0, outputs = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool adaptive = false;

  // The elements begin + k * dilation of the image, for k in [first, last). The range may be empty.
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

  // Returns the number of elements of a window. Elements in the padding count. Elements beyond the padding, which the
  // last window may contain, do not count.
  TANDEM_HOST_DEVICE std::int64_t padded_count(std::int64_t output) const {
    const std::int64_t begin = output * stride - padding, end = size + padding;
    return end - begin < kernel ? end - begin : kernel;
  }

  // Only the outputs from `first` to `last` can have windows that cover element `at`.
  struct Covering {
    std::int64_t first, last;
  };
  TANDEM_HOST_DEVICE Covering covering(std::int64_t at) const {
    if (adaptive) return {at * outputs / size, ((at + 1) * outputs - 1) / size};
    const std::int64_t end = at + padding, begin = end - (kernel - 1) * dilation;
    const std::int64_t first = begin <= 0 ? 0 : (begin + stride - 1) / stride;
    return {first, end / stride < outputs ? end / stride : outputs - 1};
  }
  // Returns the index of element `at` in the window of `output`, or -1 if `at` lies between two elements of the window.
  TANDEM_HOST_DEVICE std::int64_t place(std::int64_t at, std::int64_t output) const {
    if (adaptive) return at - output * size / outputs;
    const std::int64_t distance = at + padding - output * stride;
    return distance % dilation == 0 ? distance / dilation : -1;
  }
};

struct Pooling {
  PoolAxis h, w;
  // An average divides by the number of elements of its window, with or without elements in the padding, or by
  // `divisor` unless it is 0.
  bool count_include_pad = true;
  std::int64_t divisor = 0;

  // Returns the divisor of the average at output (oh, ow).
  TANDEM_HOST_DEVICE std::int64_t divisor_of(std::int64_t oh, std::int64_t ow) const {
    if (divisor != 0) return divisor;
    if (!h.adaptive && count_include_pad) return h.padded_count(oh) * w.padded_count(ow);
    const std::int64_t count = h.taps(oh).count() * w.taps(ow).count();
    return count > 0 ? count : 1;  // an empty window has the sum 0, so any divisor except 0 works
  }
};

}  // namespace tandem

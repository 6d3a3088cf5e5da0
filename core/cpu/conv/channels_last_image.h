// ChannelsLastImage: the addresses of an image's pixels.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/core/cpu/conv/lanes.h>

namespace tandem::cpu {

// An image (N, C, H, W), channels last, of f32 or 16 bits, or some channels of such an image.
struct ChannelsLastImage {
  DType dtype;
  std::int64_t channels, height, width, next;  // distance from one pixel of a row to the next, in numbers
  std::int64_t image_bytes, row_bytes;
  char* data;

  explicit ChannelsLastImage(const Array& a)
      : dtype(a.dtype()), channels(a.dim(1)), height(a.dim(2)), width(a.dim(3)), next(a.strides()[3]) {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    image_bytes = a.strides()[0] * size;
    row_bytes = a.strides()[2] * size;
    data = static_cast<char*>(a.raw());
  }
  // Returns whether the pixels are whole vectors of f32. Transforms then read and write them in place.
  bool has_whole_vectors() const { return channels == padded(channels) && dtype == DType::f32; }
  char* row(std::int64_t image, std::int64_t h) const { return data + image * image_bytes + h * row_bytes; }
};

}  // namespace tandem::cpu

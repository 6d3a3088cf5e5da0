// The classes of a picture's pixels, from a network's logits.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::data {

// The logits (1, C, h, w) of one picture, on any device, with C of at most 256 -> the class of each pixel of a picture
// of `height` x `width`, (height, width) u8 on the CPU. They are argmax(interpolate(logits, size, bilinear), 1), up to
// rounding where two classes are equally likely. But the resized logits, 84 bytes a pixel of VOC's 21 classes, are
// never there as a whole: they are made and read in stripes of rows.
Array classes_at(const Array& logits, std::int64_t height, std::int64_t width);

}  // namespace tandem::data

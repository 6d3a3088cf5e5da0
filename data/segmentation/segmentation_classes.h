// Computes the classes of an image's pixels from a network's logits.
#pragma once

#include <tandem/core/array/array.h>

namespace tandem::data {

// Takes the logits (1, C, h, w) of one image, on any device, with C at most 256. Returns the class of each pixel of an
// image of `height` x `width`, (height, width) u8 on the CPU. The result is argmax(interpolate(logits, size, bilinear),
// 1), up to rounding if two classes are equally likely. The resized logits, 84 bytes per pixel for VOC's 21 classes,
// are never stored as a whole: they are computed and read in stripes of rows.
Array classes_at(const Array& logits, std::int64_t height, std::int64_t width);

}  // namespace tandem::data

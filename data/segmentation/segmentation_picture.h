// Masks to look at.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/data/images/image_png.h>

#include <array>

namespace tandem::data {

// The colours of PASCAL VOC: a label's bits, three by three, are the high bits of red, green and blue. 0 is black, 255
// nearly white.
const std::array<Colour, 256>& voc_colours();

// A mask (H, W), u8 or i64 of 0 to 255 -> (3, H, W) u8, in VOC's colours.
Array coloured(const Array& mask);
// The picture (3, H, W) u8 with the colours of the mask over it; `opacity` of 1 hides it. Background, label 0, is left
// as it is.
Array overlay(const Array& picture, const Array& mask, double opacity = 0.5);
// What PreparedSegmentation has normalised with these means and deviations, (3, H, W) f32 -> (3, H, W) u8.
Array denormalized(const Array& image, const std::array<float, 3>& mean = {0.485f, 0.456f, 0.406f},
                   const std::array<float, 3>& std = {0.229f, 0.224f, 0.225f});

}  // namespace tandem::data

// Pictures that show masks to people.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/data/images/image_png.h>

#include <array>
#include <string>
#include <vector>

namespace tandem::data {

// The colours of the labels in PASCAL VOC. The bits of a label, three by three from the lowest on, are the bits of red,
// green and blue from the highest on. Label 0 is black, label 255 nearly white.
const std::array<Colour, 256>& voc_colours();

// A mask (H, W) in VOC's colours: u8, or i64 of 0 to 255 -> (3, H, W) u8.
Array coloured(const Array& mask);
// The picture (3, H, W) u8 with the colours of the mask (H, W) over it. With an opacity of 1 the colours hide the
// picture. The background, label 0, is left as it is.
Array overlay(const Array& picture, const Array& mask, double opacity = 0.5);
// The picture (3, H, W) u8 with a line in its colour along the inside of each region of the mask (H, W) but the
// background. The line is a pixel wide, and wider in pictures whose short side has more than 500 pixels.
Array outlined(const Array& picture, const Array& mask);
// The picture (3, H, W) u8, and below it a line for each label of the mask but the background, the largest first: its
// colour, its name, and its share of the pixels. A label without a name is called by its number. The result is wider
// than the picture where the lines are.
Array with_legend(const Array& picture, const Array& mask, const std::vector<std::string>& names);
// Pictures (3, H, W) u8 beside each other, with a white gap between two, and white below those that are less high.
Array side_by_side(const std::vector<Array>& pictures);
// Turns a picture (3, H, W) f32 that PreparedSegmentation has normalised with this mean and deviation back into (3, H,
// W) u8.
Array denormalized(const Array& image, const std::array<float, 3>& mean = {0.485f, 0.456f, 0.406f},
                   const std::array<float, 3>& std = {0.229f, 0.224f, 0.225f});

}  // namespace tandem::data

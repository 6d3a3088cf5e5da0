// Makes images that display masks.
#pragma once

#include <tandem/core/array/array.h>
#include <tandem/data/images/image_png.h>

#include <array>
#include <string>
#include <vector>

namespace tandem::data {

// The label colours of PASCAL VOC. The bits of a label are taken in groups of three, starting with the lowest. The
// first group gives the highest bits of red, green and blue, the next group the next lower bits, and so on. Label 0 is
// black, label 255 nearly white.
const std::array<Colour, 256>& voc_colours();

// A mask (H, W) in VOC's colours: u8, or i64 with 0 to 255 -> (3, H, W) u8.
Array coloured(const Array& mask);
// Draws the colours of the mask (H, W) over the image (3, H, W) u8. With an opacity of 1 the colours hide the image.
// The background, label 0, stays unchanged.
Array overlay(const Array& picture, const Array& mask, double opacity = 0.5);
// Draws a line in its colour along the inside of each region of the mask (H, W), except the background, on the image
// (3, H, W) u8. The line is one pixel wide, or wider in images whose short side has more than 500 pixels.
Array outlined(const Array& picture, const Array& mask);
// The image (3, H, W) u8 with a legend below it. The legend has a line for each label of the mask except the
// background, the largest first: its colour, name and share of the pixels. A label without a name shows its number. The
// result is wider than the image if the lines are.
Array with_legend(const Array& picture, const Array& mask, const std::vector<std::string>& names);
// Images (3, H, W) u8 side by side, with a white gap between neighbours, and white below the shorter ones.
Array side_by_side(const std::vector<Array>& pictures);
// Turns an image (3, H, W) f32 that PreparedSegmentation normalised with this mean and deviation back into (3, H, W)
// u8.
Array denormalized(const Array& image, const std::array<float, 3>& mean = {0.485f, 0.456f, 0.406f},
                   const std::array<float, 3>& std = {0.229f, 0.224f, 0.225f});

}  // namespace tandem::data

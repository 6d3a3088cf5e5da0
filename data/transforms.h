// Transforms of images (C, H, W), for data::Transformed. Those that move pixels do the same to a mask (H, W) as target.
#pragma once

#include <tandem/core/formulas/resize.h>
#include <tandem/data/sample_dataset.h>

namespace tandem::data {

// u8 -> f32 in [0, 1]: value / 255. Other dtypes become f32 with the same values.
Transform to_float();
// (x - mean) / std, one of each for every channel. f32 images.
Transform normalize(std::vector<float> mean, std::vector<float> std);
Transform random_horizontal_flip(double probability = 0.5);
// A random (height, width) part of the image after `padding` on each side, with zeros (a mask: with `mask_fill`). Error
// when the padded image is smaller.
Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0, double mask_fill = 255);
// `padding` more rows and columns on each side.
Transform pad(std::int64_t padding, double value = 0, double mask_fill = 255);
// The image in another size, or with another short side and the same proportions. bilinear (u8 or f32) averages where
// it makes images smaller, as torchvision does by default. Masks take the nearest pixel.
Transform resize(std::int64_t height, std::int64_t width, Interpolation interpolation = Interpolation::bilinear);
Transform resize(std::int64_t short_side, Interpolation interpolation = Interpolation::bilinear);
// The middle (height, width). Error when the image is smaller.
Transform center_crop(std::int64_t height, std::int64_t width);

}  // namespace tandem::data

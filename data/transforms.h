// Transforms of images (C, H, W), for data::Transformed. If the target is a mask (H, W), a transform that moves pixels
// also moves the mask's pixels.
#pragma once

#include <tandem/core/formulas/resize.h>
#include <tandem/data/sample_dataset.h>

namespace tandem::data {

// u8 -> f32 in [0, 1]: value / 255. Other dtypes become f32 with the same values.
Transform to_float();
// (x - mean) / std for f32 images. `mean` and `std` have one number per channel.
Transform normalize(std::vector<float> mean, std::vector<float> std);
Transform random_horizontal_flip(double probability = 0.5);
// Crops a random part (C, height, width) of the image. First it pads the image with `padding` rows and columns on each
// side: zeros for an image, `mask_fill` for a mask. Throws an Error if the padded image is smaller than the part.
Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0, double mask_fill = 255);
// Adds `padding` rows and columns on each side.
Transform pad(std::int64_t padding, double value = 0, double mask_fill = 255);
// Resizes the image, or resizes its short side and keeps the proportions. Interpolation::bilinear (u8 or f32) averages
// when it shrinks an image, as torchvision does by default. A mask uses the nearest pixel.
Transform resize(std::int64_t height, std::int64_t width, Interpolation interpolation = Interpolation::bilinear);
Transform resize(std::int64_t short_side, Interpolation interpolation = Interpolation::bilinear);
// Crops the middle (C, height, width) of the image. Throws an Error if the image is smaller.
Transform center_crop(std::int64_t height, std::int64_t width);

}  // namespace tandem::data

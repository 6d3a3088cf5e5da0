// Transforms of images (C, H, W), for data::Transformed. A transform that moves pixels moves those of a mask (H, W)
// too, when the target is one.
#pragma once

#include <tandem/core/formulas/resize.h>
#include <tandem/data/sample_dataset.h>

namespace tandem::data {

// u8 -> f32 in [0, 1]: value / 255. Other dtypes become f32 with the same values.
Transform to_float();
// (x - mean) / std for f32 images. `mean` and `std` have one number for each channel.
Transform normalize(std::vector<float> mean, std::vector<float> std);
Transform random_horizontal_flip(double probability = 0.5);
// A random part (C, height, width) of the image. Before that the image gets `padding` rows and columns on each side:
// zeros for an image, `mask_fill` for a mask. Error when the padded image is smaller than the part.
Transform random_crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0, double mask_fill = 255);
// `padding` more rows and columns on each side.
Transform pad(std::int64_t padding, double value = 0, double mask_fill = 255);
// The image in another size, or with another short side and the same proportions. Interpolation::bilinear (u8 or f32)
// averages when it makes an image smaller, as torchvision does by default. A mask takes the nearest pixel.
Transform resize(std::int64_t height, std::int64_t width, Interpolation interpolation = Interpolation::bilinear);
Transform resize(std::int64_t short_side, Interpolation interpolation = Interpolation::bilinear);
// The middle part (C, height, width) of the image. Error when the image is smaller.
Transform center_crop(std::int64_t height, std::int64_t width);

}  // namespace tandem::data

// Reads image files.
#pragma once

#include <tandem/core/array/array.h>

#include <filesystem>

namespace tandem::data {

// Reads a JPEG, PNG, BMP or PNM file as (3, H, W) u8: red, green and blue. Other colour formats are converted. In
// memory the image is channels last. Throws an Error with the name of the file if the file has another format or is
// damaged.
Array read_image(const std::filesystem::path& path);

}  // namespace tandem::data

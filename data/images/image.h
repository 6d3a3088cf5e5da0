// Image files.
#pragma once

#include <tandem/core/array/array.h>

#include <filesystem>

namespace tandem::data {

// A JPEG, PNG, BMP, GIF (the first picture), TGA, PNM or PSD file as (3, H, W) u8: red, green, blue, whatever it holds.
// In memory pixel by pixel, as in an image with channels last. Error, with the file's name, when it is none of these or
// damaged.
Array read_image(const std::filesystem::path& path);

}  // namespace tandem::data

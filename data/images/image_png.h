// Reads and writes PNG files with libpng: masks, whose numbers are classes, and images for display.
#pragma once

#include <tandem/core/array/array.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>

namespace tandem::data {

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

// The mask in a PNG file. There are two kinds of files. In a file with a palette (1 to 8 bits per pixel), the indices
// are the classes, and the palette's colours are ignored. In an 8-bit grey file, the values are the classes. Every
// Error contains the name of the file and the problem. The object is constant after construction.
class MaskFile {
 public:
  // Reads the file into memory and checks its header. Throws an Error if the file can't be read or is not such a mask.
  explicit MaskFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // The whole mask (H, W) u8. Throws an Error if the file is damaged or truncated.
  Array read() const;
  // The first `rows` rows of the mask, (rows, W) u8. The rows below are not decoded, so damage there goes unnoticed.
  Array read(std::int64_t rows) const;

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::int64_t height_ = 0, width_ = 0;
};

// Returns the bytes of a PNG file. It shows an image (3, H, W) u8, or indices (H, W), u8 or i64, in the 1 to 256
// colours of `palette`. Throws an Error if an index has no colour.
std::string encode_png(const Array& picture);
std::string encode_png(const Array& indices, std::span<const Colour> palette);
// Writes such a file atomically.
void write_png(const std::filesystem::path& path, const Array& picture);
void write_png(const std::filesystem::path& path, const Array& indices, std::span<const Colour> palette);

}  // namespace tandem::data

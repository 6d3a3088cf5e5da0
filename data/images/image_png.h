// PNG files, read and written by libpng: masks, whose numbers are classes, and pictures for people to look at.
#pragma once

#include <tandem/core/array/array.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>

namespace tandem::data {

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

// The mask in a PNG file. The file is of one of two kinds. With a palette (1 to 8 bits per pixel), its indices are the
// classes, and the colours of the palette mean nothing. In grey of 8 bits, its values are the classes. Every Error has
// the name of the file and says what is wrong with it. The object is constant after construction.
class MaskFile {
 public:
  // Reads the file into memory and checks its header. Error when the file can't be read, or is not such a mask.
  explicit MaskFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // The whole mask (H, W) u8. Error when the file is damaged or ends early.
  Array read() const;
  // The first `rows` rows of the mask, (rows, W) u8. The rows below are not decoded: damage there is not noticed.
  Array read(std::int64_t rows) const;

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::int64_t height_ = 0, width_ = 0;
};

// The bytes of a PNG file. It shows a picture (3, H, W) u8, or indices (H, W), u8 or i64, in the colours of `palette`,
// which has 1 to 256 of them. Error when an index has no colour.
std::string encode_png(const Array& picture);
std::string encode_png(const Array& indices, std::span<const Colour> palette);
// Writes such a file. The file appears whole or not at all.
void write_png(const std::filesystem::path& path, const Array& picture);
void write_png(const std::filesystem::path& path, const Array& indices, std::span<const Colour> palette);

}  // namespace tandem::data

// PNG files: masks, whose numbers are classes, and pictures to look at. By libpng.
#pragma once

#include <tandem/core/array/array.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>

namespace tandem::data {

using Colour = std::array<std::uint8_t, 3>;  // red, green, blue

// The mask in a PNG file: with a palette (1 to 8 bits a pixel), whose indices are the classes and whose colours say
// nothing; or grey of 8 bits, whose values are the classes. Every Error has the file's name and what is wrong with it.
// Constant after construction.
class MaskFile {
 public:
  // Reads the file into memory and looks at its header. Error when it can't be read, or holds something else.
  explicit MaskFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // All of it: (H, W) u8. Error when the file is damaged or ends early.
  Array read() const;
  // Its first `rows` rows: what lies below them is not decoded, and damage there not noticed.
  Array read(std::int64_t rows) const;

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::int64_t height_ = 0, width_ = 0;
};

// A PNG file's bytes: of a picture (3, H, W) u8, or of indices (H, W), u8 or i64, with the colours that they stand for
// (1 to 256). Error when an index has no colour.
std::string encode_png(const Array& picture);
std::string encode_png(const Array& indices, std::span<const Colour> palette);
// The same as a file, which appears whole or not at all.
void write_png(const std::filesystem::path& path, const Array& picture);
void write_png(const std::filesystem::path& path, const Array& indices, std::span<const Colour> palette);

}  // namespace tandem::data

// ImageFile: the picture in a file, of which no more is decoded than is needed.
#pragma once

#include <tandem/core/array/array.h>

#include <filesystem>
#include <string>

namespace tandem::data {

// A rectangle of pixels.
struct ImageWindow {
  std::int64_t top, left, height, width;
  bool operator==(const ImageWindow&) const = default;
};

// A JPEG, PNG, BMP, GIF (the first picture), TGA, PNM or PSD file. JPEGs are read by libjpeg-turbo where this build has
// it, with the pixels that Pillow gives; all else by stb_image. Grey and CMYK become red, green, blue; an orientation
// noted in the file is ignored, as Pillow does. Every Error has the file's name and what is wrong with it. Constant
// after construction.
class ImageFile {
 public:
  // Reads the file into memory and looks at its header. Error when it can't be read, or is no picture.
  explicit ImageFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // All of it: (3, H, W) u8, in memory pixel by pixel, as an image with channels last. Error when the file is damaged
  // or ends early, also where only its end is missing.
  Array read() const;
  // A part of it, (3, window.height, window.width): the same pixels as those of the whole. What the file holds beyond
  // the window may be left undecoded, and damage there unnoticed.
  Array read(const ImageWindow& window) const;

  // Whether read_scaled() is there: for JPEGs read by libjpeg-turbo.
  bool can_scale() const { return can_scale_; }
  // A size at `eighths` eighths.
  static std::int64_t scaled(std::int64_t size, int eighths) { return (size * eighths + 7) / 8; }
  // A window of the picture at 1, 2, 4 or 8 eighths of its size, which is faster than to decode and to shrink it; the
  // means are those of the blocks' low frequencies, so that pixels differ a little from those of a filter. The scaled
  // picture is scaled(height(), eighths) high: its pixels are 8 / eighths of the file's apart, and the last may lie
  // partly outside of it.
  Array read_scaled(const ImageWindow& window, int eighths) const;

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::int64_t height_ = 0, width_ = 0;
  bool can_scale_ = false;
};

// The whole file. Error, which begins with `kind` ("the mask") and its name, when it can't be read, is no regular file,
// or is larger than 2 GiB.
std::string read_whole_file(const std::filesystem::path& path, const std::string& kind);

}  // namespace tandem::data

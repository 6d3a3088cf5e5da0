// ImageFile: the image in a file. It decodes only the part that is needed.
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

// The orientation in which an image is read. stored: as its pixels are stored, like Pillow and torchvision. upright: as
// the camera was held, if a JPEG file records that (Exif).
enum class Orientation { stored, upright };

// A JPEG, PNG, BMP or PNM file. If this build has libjpeg-turbo, it reads JPEGs and gives the same pixels as Pillow.
// stb_image reads all other files. Grey and CMYK become red, green and blue. Transparency is ignored, and of 16 bits
// the upper 8 are kept. Every Error contains the name of the file and the problem. The object is constant after
// construction.
class ImageFile {
 public:
  // Reads the file into memory and checks its header. Throws an Error if the file can't be read or is not an image.
  explicit ImageFile(std::filesystem::path path, Orientation orientation = Orientation::stored);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // The whole image (3, H, W) u8, channels last in memory. Throws an Error if the file is damaged or truncated, even if
  // only its end marker is missing.
  Array read() const;
  // A part of the image (3, window.height, window.width), with the same pixels as the whole image. Parts of the file
  // outside the window may not be decoded, so damage there can go unnoticed.
  Array read(const ImageWindow& window) const;

  // Returns whether read_scaled() works. It does for JPEGs that libjpeg-turbo reads, unless they must be rotated.
  bool can_scale() const { return is_for_libjpeg_ && orientation_ == 1; }
  // `size` pixels scaled by eighths / 8, rounded up.
  static std::int64_t scaled(std::int64_t size, int eighths) { return (size * eighths + 7) / 8; }
  // A window of the image at 1, 2, 4 or 8 eighths of its size. This is faster than decoding and shrinking. The pixels
  // come from the low frequencies of the blocks, so they differ a little from those of a filter. The scaled image is
  // scaled(height(), eighths) pixels high. Each of its pixels covers 8 / eighths pixels of the file; the last one may
  // lie partly outside the image.
  Array read_scaled(const ImageWindow& window, int eighths) const;

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::int64_t height_ = 0, width_ = 0;
  int orientation_ = 1;  // exif_orientation(), if Orientation::upright is requested
  bool is_for_libjpeg_ = false;

  Array read_stored(const ImageWindow& window) const;
};

// Returns the bytes of a file. Throws an Error if the file can't be read, is not a regular file, or is larger than 2
// GiB. The Error begins with `kind`, such as "the mask", and the name of the file.
std::string read_whole_file(const std::filesystem::path& path, const std::string& kind);

}  // namespace tandem::data

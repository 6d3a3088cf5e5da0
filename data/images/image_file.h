// ImageFile: the picture in a file. Only the part that is needed is decoded.
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

// Which way up a picture is read: as its pixels stand in the file, as Pillow and torchvision do, or as the camera was
// held, where a JPEG file tells that (Exif).
enum class Orientation { stored, upright };

// A JPEG, PNG, BMP or PNM file. libjpeg-turbo reads JPEGs when this build has it, and gives the same pixels as Pillow.
// stb_image reads all other files. Grey and CMYK become red, green and blue. Transparency is left out, and of 16 bits
// the upper 8 are kept. Every Error has the name of the file and says what is wrong with it. The object is constant
// after construction.
class ImageFile {
 public:
  // Reads the file into memory and checks its header. Error when the file can't be read or is no picture.
  explicit ImageFile(std::filesystem::path path, Orientation orientation = Orientation::stored);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // The whole picture (3, H, W) u8, in memory pixel by pixel (channels last). Error when the file is damaged or ends
  // early, even when only its end is missing.
  Array read() const;
  // A part of the picture (3, window.height, window.width), with the same pixels as the whole picture. Parts of the
  // file outside of the window may stay undecoded, so that damage there is not noticed.
  Array read(const ImageWindow& window) const;

  // Whether read_scaled() works. It does for JPEGs that libjpeg-turbo reads, unless they have to be turned.
  bool can_scale() const { return is_for_libjpeg_ && orientation_ == 1; }
  // `size` pixels scaled by eighths / 8, rounded up.
  static std::int64_t scaled(std::int64_t size, int eighths) { return (size * eighths + 7) / 8; }
  // A window of the picture at 1, 2, 4 or 8 eighths of its size. This is faster than decoding and shrinking. The pixels
  // come from the low frequencies of the blocks, and so differ a little from those of a filter. The scaled picture is
  // scaled(height(), eighths) pixels high. One of its pixels covers 8 / eighths pixels of the file; the last one may
  // lie partly outside of the picture.
  Array read_scaled(const ImageWindow& window, int eighths) const;

 private:
  std::filesystem::path path_;
  std::string bytes_;
  std::int64_t height_ = 0, width_ = 0;
  int orientation_ = 1;  // exif_orientation(), if it is to be followed
  bool is_for_libjpeg_ = false;

  Array read_stored(const ImageWindow& window) const;
};

// The bytes of a file. Error when the file can't be read, is not a regular file, or is larger than 2 GiB. The Error
// begins with `kind`, such as "the mask", and the name of the file.
std::string read_whole_file(const std::filesystem::path& path, const std::string& kind);

}  // namespace tandem::data

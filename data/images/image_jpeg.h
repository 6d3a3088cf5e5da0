// Reads JPEG files with libjpeg-turbo. ImageFile uses these functions.
#pragma once

#include <tandem/data/images/image_file.h>

#include <string>

namespace tandem::data {

bool has_libjpeg();  // whether this build has libjpeg-turbo
inline bool is_jpeg(const std::string& bytes) { return bytes.starts_with("\xff\xd8\xff"); }

struct JpegSize {
  std::int64_t height, width;
};

// The height and width in the header of a JPEG file. `name` is the file's name, for errors. Like read_jpeg(), this
// works only if has_libjpeg() is true.
JpegSize jpeg_size(const std::string& bytes, const std::string& name);
// A part of the image at 1, 2, 4 or 8 eighths of its size, as (3, window.height, window.width) u8.
Array read_jpeg(const std::string& bytes, const std::string& name, const ImageWindow& window, int eighths);

}  // namespace tandem::data

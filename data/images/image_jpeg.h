// JPEG by libjpeg-turbo, for ImageFile.
#pragma once

#include <tandem/data/images/image_file.h>

#include <string>

namespace tandem::data {

bool has_libjpeg();  // whether this build has it
inline bool is_jpeg(const std::string& bytes) { return bytes.starts_with("\xff\xd8\xff"); }

struct JpegSize {
  std::int64_t height, width;
};

// Where has_libjpeg(). `name` is the file's, for errors.
JpegSize jpeg_size(const std::string& bytes, const std::string& name);
// (3, window.height, window.width) u8, a part of the picture at 1, 2, 4 or 8 eighths of its size.
Array read_jpeg(const std::string& bytes, const std::string& name, const ImageWindow& window, int eighths);

}  // namespace tandem::data

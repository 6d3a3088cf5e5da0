#include <tandem/data/images/image_orientation.h>
#include <tandem/data/images/jpeg_markers.h>

#include <cstring>
#include <optional>
#include <utility>

namespace tandem::data {
namespace {

using namespace std::string_view_literals;

// Returns the value of the tag Orientation in the first directory of a TIFF block, which is the first one of Exif. An
// entry has 12 bytes: tag, type, count and value.
int orientation_in(std::string_view tiff) {
  const bool is_little = tiff.starts_with("II*\0"sv);
  if (!is_little && !tiff.starts_with("MM\0*"sv)) return 1;
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<std::size_t>(byte_at(tiff, is_little ? at + bytes - 1 - i : at + i));
    return value;
  };
  constexpr std::size_t orientation = 0x0112, type_short = 3, type_long = 4;
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i, type = number(entry + 2, 2);
    if (entry + 12 > tiff.size()) return 1;
    if (number(entry, 2) != orientation || (type != type_short && type != type_long)) continue;
    const std::size_t value = number(entry + 8, type == type_short ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Whether rows and columns of the stored image are counted from the end. If the orientation swaps rows and columns,
// that is done first.
struct Mirrored {
  bool rows, columns;
};
Mirrored mirrored(int orientation) {
  return {orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
          orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8};
}

}  // namespace

int exif_orientation(std::string_view bytes) {
  if (!bytes.starts_with("\xff\xd8\xff")) return 1;
  std::optional<int> found;
  for_each_marker(bytes, [&](int marker, std::size_t behind, bool in_scans) {
    constexpr int app1 = 0xe1;
    if (marker != app1 || in_scans || found) return;
    const auto length = static_cast<std::size_t>(byte_at(bytes, behind) * 256 + byte_at(bytes, behind + 1));
    if (behind + length > bytes.size() || length < 2) return;
    const std::string_view segment = bytes.substr(behind + 2, length - 2);
    constexpr auto name = "Exif\0\0"sv;
    if (segment.starts_with(name)) found = orientation_in(segment.substr(name.size()));
  });
  return found.value_or(1);
}

ImageWindow stored_window(const ImageWindow& upright, int orientation, std::int64_t height, std::int64_t width) {
  ImageWindow stored = upright;
  if (swaps_sides(orientation)) {
    std::swap(stored.top, stored.left);
    std::swap(stored.height, stored.width);
  }
  const auto [rows, columns] = mirrored(orientation);
  if (rows) stored.top = height - stored.top - stored.height;
  if (columns) stored.left = width - stored.left - stored.width;
  return stored;
}

Array upright(const Array& stored, int orientation) {
  const auto [rows, columns] = mirrored(orientation);
  const bool swaps = swaps_sides(orientation);
  const std::int64_t stored_height = stored.dim(1), stored_width = stored.dim(2);
  const std::int64_t height = swaps ? stored_width : stored_height, width = swaps ? stored_height : stored_width;
  const std::int64_t row_stride = stored.strides()[1], column_stride = stored.strides()[2];
  const std::int64_t down = (rows ? -1 : 1) * row_stride, right = (columns ? -1 : 1) * column_stride;
  const auto* first = stored.data<std::uint8_t>() + (rows ? (stored_height - 1) * row_stride : 0) +
                      (columns ? (stored_width - 1) * column_stride : 0);
  const Array result = Array::empty({height, width, 3}, DType::u8);
  auto* pixel = result.data<std::uint8_t>();
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x, pixel += 3)
      std::memcpy(pixel, first + (swaps ? x * down + y * right : y * down + x * right), 3);
  return result.permute({2, 0, 1});
}

}  // namespace tandem::data

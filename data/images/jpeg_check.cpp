#include <tandem/data/images/jpeg_check.h>
#include <tandem/data/images/jpeg_markers.h>

#include <cstddef>

namespace tandem::data {
namespace {

constexpr int define_tables = 0xc4, start_of_scan = 0xda;

// Returns whether the tables of a segment are sound. `at` is the position of the segment's length, right after the
// marker.
bool are_sound(std::string_view bytes, std::size_t at) {
  int left = byte_at(bytes, at) * 256 + byte_at(bytes, at + 1) - 2;
  at += 2;
  while (left > 0) {
    int codes = 0;
    for (std::size_t i = 1; i <= 16; ++i) codes += byte_at(bytes, at + i);
    if (codes > 256) return false;
    left -= 17 + codes;
    at += 17 + static_cast<std::size_t>(codes);
  }
  return true;
}

}  // namespace

bool has_sound_huffman_tables(std::string_view jpeg) {
  bool are_all_sound = true;
  for_each_marker(jpeg, [&](int marker, std::size_t behind, bool) {
    if (marker == define_tables) are_all_sound &= are_sound(jpeg, behind);
  });
  return are_all_sound;
}

std::int64_t count_scans(std::string_view jpeg) {
  std::int64_t scans = 0;
  for_each_marker(jpeg, [&](int marker, std::size_t, bool) { scans += marker == start_of_scan; });
  return scans;
}

std::string with_huffman_tables(std::string_view bytes) {
  const auto start = bytes.find_first_not_of('\xff');
  if (start == 0 || start == std::string_view::npos || bytes[start] != '\xd8') return std::string(bytes);
  std::string jpeg = "\xff\xd8";
  // Adds four tables for DC and four for AC coefficients.
  for (const char number : {0x00, 0x01, 0x02, 0x03, 0x10, 0x11, 0x12, 0x13}) {
    jpeg.append("\xff\xc4\0\x14", 4) += number;
    jpeg += '\1';           // one code of one bit,
    jpeg.append(15, '\0');  // no longer codes,
    jpeg += '\0';           // and the symbol of the one code
  }
  return jpeg.append(bytes.substr(start + 1));
}

}  // namespace tandem::data

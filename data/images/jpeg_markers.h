// The markers of a JPEG file, and the segments after them (ITU-T T.81, B.1).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tandem::data {

// Returns the byte at a position, or 0 beyond the end.
inline int byte_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

// Calls visit(marker, position after it, whether a scan came before) for each marker. Before the first scan, segment
// contents are skipped, because bytes there that look like a marker (in a thumbnail, for example) are not one. After
// it, a decoder may look for markers anywhere.
template <class Visit>
void for_each_marker(std::string_view jpeg, Visit&& visit) {
  constexpr int start_of_scan = 0xda;
  std::size_t at = 0;
  bool in_scans = false;
  while ((at = jpeg.find('\xff', at)) != std::string_view::npos) {
    while (at < jpeg.size() && jpeg[at] == '\xff') ++at;
    const int marker = byte_at(jpeg, at++);
    visit(marker, at, in_scans);
    in_scans |= marker == start_of_scan;
    const bool has_length = marker >= 0xc0 && !(marker >= 0xd0 && marker <= 0xd9);
    if (has_length && !in_scans)
      at += static_cast<std::size_t>(std::max(2, byte_at(jpeg, at) * 256 + byte_at(jpeg, at + 1)));
  }
}

}  // namespace tandem::data

#include <tandem/core/base/utf8.h>

#include <cstddef>

namespace tandem {
namespace {

// Returns the length in bytes of the valid sequence that `text` begins with, or 0 if there is none. REQUIRES: text is
// not empty.
std::size_t first_sequence(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xc2 && lead < 0xe0   ? 2
                           : lead >= 0xe0 && lead < 0xf0 ? 3
                           : lead >= 0xf0 && lead < 0xf5 ? 4
                                                         : 0;
  if (size > text.size()) return 0;
  // The second byte tells whether a sequence is overlong, a surrogate or too large.
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (std::size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if (next < low || next > high) return 0;
    low = 0x80;
    high = 0xbf;
  }
  return size;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto size = first_sequence(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string utf8_escaped(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  while (!bytes.empty()) {
    const auto size = first_sequence(bytes);
    const auto byte = static_cast<unsigned char>(bytes[0]);
    if (size == 0 || byte < 0x20 || byte == 0x7f || bytes.starts_with("\\x")) {
      text += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
      bytes.remove_prefix(1);
    } else {
      text += bytes.substr(0, size);
      bytes.remove_prefix(size);
    }
  }
  return text;
}

}  // namespace tandem

// UTF-8 as RFC 3629 defines it.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Returns whether `text` is valid UTF-8: it contains no sequence that is truncated, overlong, a surrogate or above
// U+10FFFF.
bool is_utf8(std::string_view text);

// Converts arbitrary bytes, such as the name of a file, to text for a format that requires UTF-8. For example, a byte
// E9 after "caf" becomes the four characters \xe9. Each byte outside a valid sequence and each ASCII control character
// becomes \x and two hexadecimal digits. So does a backslash before an x. Other text is unchanged. Replacing each \xHH
// by its byte restores the bytes, so different bytes produce different texts.
std::string utf8_escaped(std::string_view bytes);

}  // namespace tandem

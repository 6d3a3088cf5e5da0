// UTF-8 as RFC 3629 defines it.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Whether `text` is valid: no sequence in it is cut off, overlong, a surrogate or above U+10FFFF.
bool is_utf8(std::string_view text);

// Text for a file whose format wants UTF-8, from bytes that may be anything, such as the name of a file: "caf\xe9" with
// a backslash. Each byte that belongs to no valid sequence and each control character becomes \x and two hexadecimal
// digits. So does a backslash before an x. Other text stays as it is. Replacing each \xHH by its byte gives the bytes
// back, so different bytes give different text.
std::string utf8_escaped(std::string_view bytes);

}  // namespace tandem

// UTF-8 as RFC 3629 defines it.
#pragma once

#include <string_view>

namespace tandem {

// Whether `text` is valid: no sequence in it is cut off, overlong, a surrogate or above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace tandem

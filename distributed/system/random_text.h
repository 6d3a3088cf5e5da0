// Names and secrets that nobody else has.
#pragma once

#include <string>

namespace tandem::distributed {

// `words` times 32 bits of the system's randomness, as hexadecimal digits.
std::string random_text(int words);

}  // namespace tandem::distributed

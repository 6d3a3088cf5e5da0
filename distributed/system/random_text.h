// Names and secrets that no other process has.
#pragma once

#include <string>

namespace tandem::distributed {

// Eight random hexadecimal digits for each of `words`: 32 bits from the operating system. Any thread may call it.
std::string random_text(int words);

}  // namespace tandem::distributed

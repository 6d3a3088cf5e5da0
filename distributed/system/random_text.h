// Makes random names and secrets, which no other process has.
#pragma once

#include <string>

namespace tandem::distributed {

// Returns eight random hexadecimal digits for each of `words` words, 32 bits each, from the operating system. Any
// thread may call it.
std::string random_text(int words);

}  // namespace tandem::distributed

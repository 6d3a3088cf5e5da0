// Terminals: where lines of several processes meet a line that is written again and again.
#pragma once

#include <unistd.h>

#include <string>

namespace tandem::distributed {

// What to write before a line, so that it takes the place of an unfinished one, such as a progress line with the
// terminal's "^C" behind it. Empty where `fd` is no terminal.
inline std::string start_of_line(int fd) { return isatty(fd) != 0 ? "\r\x1b[K" : ""; }

}  // namespace tandem::distributed

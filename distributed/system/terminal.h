// Terminals, where lines of several processes mix with a line that is repeatedly overwritten.
#pragma once

#include <unistd.h>

#include <string>

namespace tandem::distributed {

// Returns a prefix for a line, with which it replaces an unfinished line on the terminal, such as a progress line
// followed by "^C". Empty if `fd` is not a terminal.
inline std::string start_of_line(int fd) { return isatty(fd) != 0 ? "\r\x1b[K" : ""; }

}  // namespace tandem::distributed

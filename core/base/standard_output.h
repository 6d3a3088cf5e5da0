// Standard streams for programs that print results: functions for the program's first and last lines.
#pragma once

namespace tandem {

// After this call, a write that can't succeed returns an error, which the caller handles. Such writes go to a pipe or
// socket that its reader has closed (EPIPE), or beyond the limit on a file's size (EFBIG, ulimit -f). Without this
// call, the signals SIGPIPE and SIGXFSZ end the process. Handlers that the program installed stay, and child programs
// start with the default behaviour.
void ignore_write_signals();

// Call this function first in main(), and in each library function that a program may call first. If the program was
// started with descriptor 0, 1 or 2 closed, as daemons are, the next file or socket would get that number and receive
// the program's output. This function opens /dev/null in its place. It also calls ignore_write_signals().
void prepare_standard_streams();

// Flushes std::cout. Throws an Error if any of the program's output to std::cout could not be written, now or earlier.
// Without this check, a program exits with status 0 on a full disk, although its output is lost. A closed pipe
// (`program | head`) is not an error.
void flush_standard_output();

}  // namespace tandem

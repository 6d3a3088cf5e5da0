// The standard streams of a program that prints results: what its first line and its last line do.
#pragma once

namespace tandem {

// From here on, a write that can't succeed is an error, which its caller handles: to a pipe or socket whose reader has
// left (EPIPE), or above the limit of a file's size (EFBIG, ulimit -f). Without this the signals SIGPIPE and SIGXFSZ
// end the process. A program's own handlers stay, and programs that this one starts have the standard behaviour again.
void ignore_write_signals();

// The first line of a program, and of each function that may be the first one of this library. If the program was
// started with descriptor 0, 1 or 2 closed, as daemons are, the next file or socket would get that number, and with it
// what the program prints: /dev/null takes the place. Also calls ignore_write_signals().
void prepare_standard_streams();

// Writes what std::cout still holds. Error when something that the program printed there could not be written, now or
// earlier. A program that does not ask ends with 0 on a full disk, and what it printed is lost. That the reader of a
// pipe has left (`program | head`) is no error.
void flush_standard_output();

}  // namespace tandem

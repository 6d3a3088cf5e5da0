// write_all: all of some bytes into an open file.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tandem {

// Writes all `bytes`, however many calls of the system that takes: Linux writes at most 2 GiB at a time, and a signal
// may cut a write short. At the file's position, or from byte `offset` of the file on. Returns how many bytes are
// written: less than `bytes` after a failure, which errno names.
std::size_t write_all(int file, const void* data, std::size_t bytes);
std::size_t write_all(int file, const void* data, std::size_t bytes, off_t offset);

}  // namespace tandem

// write_all: writes all bytes of a buffer to an open file.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tandem {

// Writes all `bytes`, with as many system calls as needed: Linux writes at most 2 GiB per call, and a signal may cut a
// write short. Writes at the file's current position, or at byte `offset` of the file. Returns the number of bytes
// written. If it is less than `bytes`, errno names the cause.
std::size_t write_all(int file, const void* data, std::size_t bytes);
std::size_t write_all(int file, const void* data, std::size_t bytes, off_t offset);

}  // namespace tandem

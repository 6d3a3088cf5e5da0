// IDX: the format of the MNIST files. http://yann.lecun.com/exdb/mnist/ describes it: two zero bytes, a type,
// the number of dimensions, the dimensions (32 bits, big-endian), then the numbers.
#pragma once

#include <tandem/core/array/array.h>

#include <filesystem>

namespace tandem::data {

// Reads an IDX file of unsigned bytes, plain or gzip-compressed (told apart by content, not by name), into a
// u8 Array of its shape. Every field is checked; an Error names the file, what was found, what was expected
// and what to do.
Array read_idx(const std::filesystem::path& path);

// Writes a row-major u8 Array as a plain IDX file: whole or, on an Error, not at all.
void write_idx(const std::filesystem::path& path, const Array& array);

}  // namespace tandem::data

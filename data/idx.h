// IDX: the format of the MNIST files. http://yann.lecun.com/exdb/mnist/ describes it. A file holds two zero bytes, a
// type, the number of dimensions, the dimensions (32 bits, big-endian) and then the numbers.
#pragma once

#include <tandem/core/array/array.h>

#include <filesystem>

namespace tandem::data {

// Reads an IDX file of unsigned bytes into a u8 Array of its shape. The file may be compressed with gzip, in one or
// more members; the content decides, not the name. Every field is checked. An Error names the file, what was found,
// what was expected and what to do.
Array read_idx(const std::filesystem::path& path);

// Writes a row-major u8 Array as an uncompressed IDX file. If it throws an Error, it has written nothing.
void write_idx(const std::filesystem::path& path, const Array& array);

}  // namespace tandem::data

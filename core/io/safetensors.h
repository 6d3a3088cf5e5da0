// safetensors: named arrays in a file that every framework can read. The format is described at
// https://github.com/huggingface/safetensors (README, "Format"). The rules are those that its reference reader
// enforces.
#pragma once

#include <tandem/core/array/named_array.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tandem {

struct Safetensors {
  std::vector<NamedArray> arrays;               // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;  // the free strings under "__metadata__", without the checksums
  bool has_checksums = false;
};

// Checksums are ours, not the format's. Other readers see two more strings under "__metadata__". "tandem.checksums" is
// "crc32": a file with it and without the other one is damaged. "tandem.crc32" is a JSON object that holds a CRC-32, as
// 8 hexadecimal digits, for the bytes of each array under its name, and one for the other metadata under
// "__metadata__": over each key, a NUL, its value and a NUL, in the order of the keys. Files of older versions have
// "tandem.crc32" alone, or neither.
enum class Checksums { none, crc32 };

// Reads the whole file into new row-major arrays in host memory. Before memory for any tensor is allocated, everything
// is checked: the size of the header, its JSON, duplicate keys, dtypes, shapes against sizes, holes, overlaps, missing
// and trailing bytes. Where the file has checksums, those of the arrays that are read must be right. Errors name the
// file, the tensor, what was found and what was expected. The dtypes are those of DType.
//
// With `wanted`, it is asked once for every name, and only the arrays that it wants are returned. The others are left
// unread, or read and checked one at a time.
enum class Unwanted { left, checked };
Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& wanted = {},
                             Unwanted unwanted = Unwanted::left);

// An array of which all but the numbers is known.
struct ExpectedArray {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint32_t crc = 0;  // checksum_of() it, for a file with checksums
};

// The CRC-32 of an array's bytes, row-major.
std::uint32_t checksum_of(const Array& array);

// Puts `arrays` into the order of their bytes in a file.
void sort_as_in_safetensors(std::vector<ExpectedArray>& arrays);

// Writes with AtomicFile: a crash leaves either the file that was there before or the new one. The bytes are those that
// the reference writer gives: the widest dtype first, then by name, with the header padded to a multiple of 8. Arrays
// of any strides and on any device are written row-major. Names must be unique, valid UTF-8 and not "__metadata__".
// Checksums stand in the file before the arrays. So they cost a second pass: arrays that are not row-major, or on
// another device, are copied twice.
//
// `expected` are more arrays than fit into memory at once. When it is the turn of one, `take` is asked for it. It may
// give an array on any device and of any strides.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata = {}, Checksums checksums = Checksums::none,
                       std::span<const ExpectedArray> expected = {},
                       const std::function<Array(const ExpectedArray&)>& take = {});

}  // namespace tandem

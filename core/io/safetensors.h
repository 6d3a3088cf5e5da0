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

// Checksums are an extension of ours. Other readers see two more strings under "__metadata__". "tandem.checksums" is
// "crc32": if a file has it but not the other string, the file is damaged. "tandem.crc32" is a JSON object with CRC-32s
// as 8 hexadecimal digits: one for the bytes of each array, under its name, and one for the other metadata, under
// "__metadata__". The latter covers each key, a NUL, its value and a NUL, in the order of the keys. Files of older
// versions have only "tandem.crc32", or neither.
enum class Checksums { none, crc32 };

// Reads the whole file into new row-major arrays in host memory. Before it allocates memory for tensors, it checks
// everything: the size of the header, its JSON, duplicate keys, dtypes, shapes against sizes, holes, overlaps, missing
// and trailing bytes. If the file has checksums, it also checks those of the arrays that it reads. Errors name the
// file, the tensor, what was found and what was expected. The supported dtypes are those of DType.
//
// If `wanted` is given, it is called once for every name, and only the arrays for which it returns true are returned.
// The other arrays are not read (`left`), or read and checked one at a time (`checked`).
enum class Unwanted { left, checked };
Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& wanted = {},
                             Unwanted unwanted = Unwanted::left);

// An array whose numbers are not known yet.
struct ExpectedArray {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint32_t crc = 0;  // its checksum_of(), for a file with checksums
};

// Returns the CRC-32 of an array's bytes in row-major order.
std::uint32_t checksum_of(const Array& array);

// Sorts `arrays` in the order of their bytes in a file.
void sort_as_in_safetensors(std::vector<ExpectedArray>& arrays);

// Writes with AtomicFile: after a crash, the file is either the old one or the new one. The bytes are the same as those
// of the reference writer: the widest dtype first, then by name, with the header padded to a multiple of 8. Arrays with
// any strides and on any device are written row-major. Names must be unique, valid UTF-8 and not "__metadata__".
// Checksums precede the arrays in the file, so they cost a second pass: arrays that are not row-major, or on another
// device, are copied twice.
//
// `expected` describes arrays that do not fit into memory together. When the writer reaches one of them, it calls
// `take`, which may return an array on any device and with any strides.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata = {}, Checksums checksums = Checksums::none,
                       std::span<const ExpectedArray> expected = {},
                       const std::function<Array(const ExpectedArray&)>& take = {});

}  // namespace tandem

// safetensors: named arrays in a file, readable by every framework.
// Format: https://github.com/huggingface/safetensors (README, "Format"); rules as its reference reader
// enforces them.
#pragma once

#include <tandem/core/array/named_array.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tandem {

struct Safetensors {
  std::vector<NamedArray> arrays;               // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;  // the free strings under "__metadata__"
};

// Reads the whole file into fresh row-major host arrays. Errors name the file, the tensor, what was found and
// what was expected: the header's size, its JSON, duplicate keys, dtypes, shapes against sizes, holes,
// overlaps, missing and trailing bytes are all checked before anything is allocated for a tensor. dtypes are
// those of DType.
Safetensors read_safetensors(const std::filesystem::path& path);

// Writes with AtomicFile: a crash leaves either the file that was there or the new one. The bytes are those
// that the reference writer gives: widest dtype first, then by name, header padded to a multiple of 8. Arrays
// of any strides and device are written row-major. Names must be unique, valid UTF-8 and not "__metadata__".
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tandem

// safetensors: named arrays in a file that every framework can read. The format is described at
// https://github.com/huggingface/safetensors (README, "Format"). The rules are those that its reference reader
// enforces.
#pragma once

#include <tandem/core/array/named_array.h>

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tandem {

struct Safetensors {
  std::vector<NamedArray> arrays;               // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;  // the free strings under "__metadata__"
};

// Reads the whole file into new row-major arrays in host memory. Before memory for any tensor is allocated, everything
// is checked: the size of the header, its JSON, duplicate keys, dtypes, shapes against sizes, holes, overlaps, missing
// and trailing bytes. Errors name the file, the tensor, what was found and what was expected. The dtypes are those of
// DType.
//
// With `wanted`, it is asked once for every name, and only the arrays that it wants are read.
Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& wanted = {});

// Writes with AtomicFile: a crash leaves either the file that was there before or the new one. The bytes are those that
// the reference writer gives: the widest dtype first, then by name, with the header padded to a multiple of 8. Arrays
// of any strides and on any device are written row-major. Names must be unique, valid UTF-8 and not "__metadata__".
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata = {});

// An array of which all but the numbers is known.
struct ExpectedArray {
  std::string name;
  DType dtype;
  Shape shape;
};

// Puts `arrays` into the order of their bytes in a file.
void sort_as_in_safetensors(std::vector<ExpectedArray>& arrays);

// The same with more arrays than fit into memory at once. When it is the turn of an expected array, `take` is asked for
// it. It may give an array on any device and of any strides.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata, std::span<const ExpectedArray> expected,
                       const std::function<Array(const ExpectedArray&)>& take);

}  // namespace tandem

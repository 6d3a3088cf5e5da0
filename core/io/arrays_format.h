// ArraysFormat: a format of files of named arrays. The ground floor adds safetensors, annexes add others.
#pragma once

#include <tandem/core/array/named_array.h>
#include <tandem/core/base/annex.h>

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct ArraysFormat {
  std::string what;       // "a safetensors file"
  std::string extension;  // ".safetensors"
  // Whether a file that begins with these bytes, nine or all that it has, is of this format.
  std::function<bool(std::string_view)> recognises;
  // As load_arrays() and save_arrays(), in this format.
  std::function<std::vector<NamedArray>(const std::filesystem::path&, const std::string& key)> read;
  std::function<void(const std::filesystem::path&, std::span<const NamedArray>,
                     const std::map<std::string, std::string>& metadata)>
      write;
};

// Safetensors comes first.
AnnexList<ArraysFormat>& arrays_formats();

}  // namespace tandem

// ArraysFormat: a format of files of named arrays. The ground floor adds safetensors; annexes add other formats.
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
  // Returns whether a file with these first bytes is of this format. The argument has nine bytes, or all if the file is
  // shorter.
  std::function<bool(std::string_view)> recognises;
  // Like load_arrays() and save_arrays(), in this format.
  std::function<std::vector<NamedArray>(const std::filesystem::path&, const std::string& key)> read;
  std::function<void(const std::filesystem::path&, std::span<const NamedArray>,
                     const std::map<std::string, std::string>& metadata)>
      write;
};

// Returns the list of formats. Safetensors is the first.
inline constinit AnnexList<ArraysFormat> arrays_formats{add_core_annexes};

}  // namespace tandem

// Files of named arrays, whatever their format: safetensors or PyTorch's .pth.
#pragma once

#include <tandem/core/array/named_array.h>

#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// Reads a file of arrays. The format is detected from the file's contents, not from its name. If a checkpoint contains
// several dicts, `key` names the one to read. The default is the model's dict, both in a .pth file (pth.h) and in a
// checkpoint of a training program, whose arrays are named DICT/NAME. Other safetensors files have no key. Names in
// files of other programs are returned without_wrappers().
//   model.load_state_dict(load_arrays("weights.pth"));
//   model.load_state_dict(load_arrays("run1/best.safetensors"));
std::vector<NamedArray> load_arrays(const std::filesystem::path& path, const std::string& key = "");

// Returns the arrays without the parts that PyTorch's wrappers add to names: "module." of DistributedDataParallel at
// the beginning of all names, and "_orig_mod." of torch.compile anywhere. If two names would become equal, all names
// are unchanged.
std::vector<NamedArray> without_wrappers(std::vector<NamedArray> arrays);

// Writes the arrays in the format that the extension of the name selects. A safetensors file stores `metadata`; a .pth
// file can't. Both formats contain checksums, so load_arrays() detects later damage.
void save_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                 const std::map<std::string, std::string>& metadata = {});
//   save_arrays("batch.safetensors", {{"x", x}, {"logits", logits.value()}});
inline void save_arrays(const std::filesystem::path& path, std::initializer_list<NamedArray> arrays,
                        const std::map<std::string, std::string>& metadata = {}) {
  save_arrays(path, std::span(arrays.begin(), arrays.size()), metadata);
}

// Returns whether save_arrays() supports the name: it ends in ".safetensors" or ".pth" and has something before that.
bool is_arrays_file_name(const std::filesystem::path& path);

}  // namespace tandem

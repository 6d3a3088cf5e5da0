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

// Reads a file of arrays. The format is recognised by the file's contents, not by its name. When a checkpoint holds
// several dicts, `key` names the one to read; the model's is the default: of a .pth file (pth.h), and of a checkpoint
// of a training program, whose arrays are named DICT/NAME. Other safetensors files have no key. Names in files of other
// programs are returned without_wrappers().
//   model.load_state_dict(load_arrays("weights.pth"));
//   model.load_state_dict(load_arrays("run1/best.safetensors"));
std::vector<NamedArray> load_arrays(const std::filesystem::path& path, const std::string& key = "");

// The arrays without the parts of their names that PyTorch's wrappers put there: "module.", of DistributedDataParallel,
// before all names, and "_orig_mod.", of torch.compile, anywhere. When two names would then be the same, all names stay
// as they are.
std::vector<NamedArray> without_wrappers(std::vector<NamedArray> arrays);

// Writes the arrays in the format that the ending of the name stands for. `metadata` goes into a safetensors file; .pth
// has no place for it. Either file has checksums, so that load_arrays() finds what was damaged later.
void save_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                 const std::map<std::string, std::string>& metadata = {});
//   save_arrays("batch.safetensors", {{"x", x}, {"logits", logits.value()}});
inline void save_arrays(const std::filesystem::path& path, std::initializer_list<NamedArray> arrays,
                        const std::map<std::string, std::string>& metadata = {}) {
  save_arrays(path, std::span(arrays.begin(), arrays.size()), metadata);
}

// Whether save_arrays() knows a format for the name: it ends in ".safetensors" or ".pth" and has something before that.
bool is_arrays_file_name(const std::filesystem::path& path);

}  // namespace tandem

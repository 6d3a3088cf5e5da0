#include <tandem/core/io/arrays_file.h>

#include <tandem/core/io/input_file.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/safetensors.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tandem {

namespace {

// The arrays of one dict of a checkpoint of a training program (distributed/training/checkpoint.h), where they are
// named DICT/NAME. Of other files, all arrays.
std::vector<NamedArray> dict_of(Safetensors contents, const InputFile& file, const std::string& key) {
  if (!contents.metadata.contains("program") || !contents.metadata.contains("world_size")) {
    file.check(key.empty(), "is a safetensors file, in which there is no \"", key,
               "\" to choose: its arrays lie side by side");
    return std::move(contents.arrays);
  }
  const std::string dict = key.empty() ? "model" : key;
  std::vector<NamedArray> arrays;
  std::set<std::string> dicts;
  for (auto& [name, array] : contents.arrays) {
    dicts.insert(name.substr(0, name.find('/')));
    if (name.starts_with(dict + '/')) arrays.push_back({name.substr(dict.size() + 1), std::move(array)});
  }
  std::string names;
  for (const auto& other : dicts) names += (names.empty() ? "\"" : ", \"") + other + '"';
  file.check(!arrays.empty(), "is a checkpoint that has no \"", dict, "\", but ", names.empty() ? "nothing" : names);
  return arrays;
}

}  // namespace

std::vector<NamedArray> load_arrays(const std::filesystem::path& path, const std::string& key) {
  const InputFile file(path, "file");
  const std::string first = file.read(std::min<std::uint64_t>(file.size(), 9), 0);
  const bool is_safetensors = first.size() == 9 && first[8] == '{';
  file.check(is_safetensors || first.starts_with("PK") || first.starts_with("\x80\x02"),
             "is neither a safetensors file nor a .pth file of torch.save");
  return is_safetensors ? dict_of(read_safetensors(path), file, key) : read_pth(path, key);
}

bool is_arrays_file_name(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".pth";
}

void save_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                 const std::map<std::string, std::string>& metadata) {
  TANDEM_CHECK(is_arrays_file_name(path), "cannot save arrays as ", path.string(),
               ": expected a name that ends in .safetensors or .pth");
  if (path.extension() == ".pth") write_pth(path, arrays);
  else write_safetensors(path, arrays, metadata, Checksums::crc32);
}

}  // namespace tandem

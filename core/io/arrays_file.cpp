#include <tandem/core/io/arrays_file.h>

#include <tandem/core/io/arrays_format.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/io/safetensors.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tandem {

namespace {

// Returns the arrays of one dict from a training program's checkpoint (distributed/training/checkpoints/checkpoint.h),
// in which they are named DICT/NAME. For other files, returns all arrays.
std::vector<NamedArray> read_dict(const std::filesystem::path& path, const std::string& key) {
  Safetensors contents = read_safetensors(path);
  const InputFile file(path, "file");
  if (!contents.metadata.contains("program") || !contents.metadata.contains("world_size")) {
    file.check(key.empty(), "is a safetensors file without dicts, so there is no \"", key, "\" to read");
    return without_wrappers(std::move(contents.arrays));
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
  file.check(!arrays.empty(), "is a checkpoint that has no \"", dict, "\"; it has ", names.empty() ? "nothing" : names);
  return arrays;
}

void write_dict(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                const std::map<std::string, std::string>& metadata) {
  write_safetensors(path, arrays, metadata, Checksums::crc32);
}

// Joins one member of all formats with `between`: ".safetensors or .pth".
std::string names(std::string ArraysFormat::*member, const std::string& between) {
  std::string text;
  for (const ArraysFormat& format : arrays_formats.entries()) text += (text.empty() ? "" : between) + format.*member;
  return text;
}

}  // namespace

void add_safetensors_format() {
  arrays_formats.add({"a safetensors file", ".safetensors",
                      [](std::string_view first) { return first.size() == 9 && first[8] == '{'; }, read_dict,
                      write_dict});
}

std::vector<NamedArray> load_arrays(const std::filesystem::path& path, const std::string& key) {
  const InputFile file(path, "file");
  const std::string first = file.read(std::min<std::uint64_t>(file.size(), 9), 0);
  for (const ArraysFormat& format : arrays_formats.entries())
    if (format.recognises(first)) return format.read(path, key);
  file.check(false, arrays_formats.entries().size() > 1 ? "is neither " : "is not ",
             names(&ArraysFormat::what, " nor "));
  return {};
}

std::vector<NamedArray> without_wrappers(std::vector<NamedArray> arrays) {
  const std::string compiled = "_orig_mod.", parallel = "module.";
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) {
    std::string& rest = names.emplace_back(name);
    for (std::size_t at = 0; (at = rest.find(compiled, at)) != std::string::npos;) {
      if (at == 0 || rest[at - 1] == '.') rest.erase(at, compiled.size());
      else at += compiled.size();
    }
  }
  while (!names.empty() && std::ranges::all_of(names, [&](auto& name) { return name.starts_with(parallel); }))
    for (auto& name : names) name.erase(0, parallel.size());
  if (std::set(names.begin(), names.end()).size() == names.size())
    for (std::size_t i = 0; i < names.size(); ++i) arrays[i].name = names[i];
  return arrays;
}

bool is_arrays_file_name(const std::filesystem::path& path) {
  return std::ranges::any_of(arrays_formats.entries(),
                             [&](const auto& format) { return path.extension() == format.extension; });
}

void save_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                 const std::map<std::string, std::string>& metadata) {
  for (const ArraysFormat& format : arrays_formats.entries())
    if (path.extension() == format.extension) return format.write(path, arrays, metadata);
  detail::fail("cannot save arrays as ", path.string(), ": expected a name that ends in ",
               names(&ArraysFormat::extension, " or "));
}

}  // namespace tandem

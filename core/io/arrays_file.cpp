#include <tandem/core/io/arrays_file.h>

#include <tandem/core/io/input_file.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/safetensors.h>

#include <algorithm>

namespace tandem {

std::vector<NamedArray> load_arrays(const std::filesystem::path& path, const std::string& key) {
  bool is_safetensors = false;
  {
    const InputFile file(path, "file");
    const std::string first = file.read(std::min<std::uint64_t>(file.size(), 9), 0);
    is_safetensors = first.size() == 9 && first[8] == '{';
    file.check(is_safetensors || first.starts_with("PK") || first.starts_with("\x80\x02"),
               "is neither a safetensors file nor a .pth file of torch.save");
    file.check(!is_safetensors || key.empty(), "is a safetensors file, in which there is no \"", key,
               "\" to choose: its arrays lie side by side");
  }
  return is_safetensors ? read_safetensors(path).arrays : read_pth(path, key);
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

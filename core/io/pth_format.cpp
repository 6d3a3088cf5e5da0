// Adds .pth to the formats of load_arrays() and save_arrays().
#include <tandem/core/io/arrays_file.h>
#include <tandem/core/io/arrays_format.h>
#include <tandem/core/io/pth.h>

namespace tandem {

void add_pth_format() {
  const auto recognises = [](std::string_view first) {
    // A zip archive, or a pickle of protocol 2 to 5.
    return first.starts_with("PK") || (first.size() > 1 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5);
  };
  const auto read = [](const std::filesystem::path& path, const std::string& key) {
    return without_wrappers(read_pth(path, key));
  };
  arrays_formats.add({"a .pth file of torch.save", ".pth", recognises, read,
                      [](const std::filesystem::path& path, std::span<const NamedArray> arrays,
                         const std::map<std::string, std::string>&) { write_pth(path, arrays); }});
}

}  // namespace tandem

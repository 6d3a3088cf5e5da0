// .pth among the formats of load_arrays() and save_arrays().
#include <tandem/core/io/arrays_format.h>
#include <tandem/core/io/pth.h>

namespace tandem {

void add_pth_format() {
  arrays_formats().add({"a .pth file of torch.save", ".pth",
                        [](std::string_view first) { return first.starts_with("PK") || first.starts_with("\x80\x02"); },
                        read_pth,
                        [](const std::filesystem::path& path, std::span<const NamedArray> arrays,
                           const std::map<std::string, std::string>&) { write_pth(path, arrays); }});
}

}  // namespace tandem

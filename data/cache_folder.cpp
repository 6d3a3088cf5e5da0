#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/data/cache_folder.h>

#include <unistd.h>

#include <cstdlib>

namespace tandem::data {

std::string environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

std::filesystem::path cache_folder(const std::string& name) {
  std::filesystem::path base = environment("XDG_CACHE_HOME");
  // The XDG specification says that relative paths must be ignored.
  if (base.is_relative()) {
    std::string home = environment("HOME");
    if (home.empty()) home = entry_of(::getuid()).home;
    TANDEM_CHECK(!home.empty(), "there is no home folder to store the downloaded ", name,
                 " files; set HOME, or give their folder");
    base = std::filesystem::path(home) / ".cache";
  }
  return base / "tandem" / name;
}

}  // namespace tandem::data

#include <tandem/core/base/check.h>
#include <tandem/data/cache_folder.h>

#include <pwd.h>
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
    if (home.empty()) {
      const passwd* user = ::getpwuid(::getuid());
      TANDEM_CHECK(user != nullptr && user->pw_dir != nullptr, "there is no home folder to store the downloaded ", name,
                   " files; set HOME, or give their folder");
      home = user->pw_dir;
    }
    base = std::filesystem::path(home) / ".cache";
  }
  return base / "tandem" / name;
}

}  // namespace tandem::data

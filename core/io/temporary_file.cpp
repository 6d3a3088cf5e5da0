#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/temporary_file.h>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = ".tandem-", suffix = ".tmp";
constexpr std::size_t digits = 16;

bool is_temporary(std::string_view name) {
  return name.size() == prefix.size() + digits + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix) &&
         name.substr(prefix.size(), digits).find_first_not_of("0123456789abcdef") == name.npos;
}

// Returns whether this process checks the folder for the first time.
bool is_first_look(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> seen;
  std::error_code error;
  const std::lock_guard lock(mutex);
  return seen.insert(fs::absolute(folder, error)).second;
}

}  // namespace

fs::path temporary_path(const fs::path& folder) {
  std::uint64_t random = 0;
  TANDEM_CHECK(::getrandom(&random, sizeof random, 0) == sizeof random,
               "the system returned no random bits for the name of a temporary file: ", reason_for(errno));
  char text[digits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random));
  return folder / (std::string(prefix) + text + std::string(suffix));
}

int create_temporary(const fs::path& folder, fs::path& path) {
  int file = -1;
  do {
    path = temporary_path(folder);
    file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EEXIST);
  if (file >= 0) remove_leftovers(folder, file);
  return file;
}

void remove_leftovers(const fs::path& folder, int file) {
  constexpr time_t a_day = 24 * 60 * 60;
  struct stat mine {};
  if (!is_first_look(folder) || ::fstat(file, &mine) != 0) return;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::path& path = entries->path();
    struct stat theirs {};
    if (!is_temporary(path.filename().string()) || ::lstat(path.c_str(), &theirs) != 0) continue;
    if (S_ISREG(theirs.st_mode) && theirs.st_uid == mine.st_uid && mine.st_mtime - theirs.st_mtime > a_day)
      ::unlink(path.c_str());
  }
}

}  // namespace tandem

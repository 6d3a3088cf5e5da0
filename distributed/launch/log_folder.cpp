#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/launch/log_folder.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace tandem::distributed {

namespace fs = std::filesystem;

namespace {

const std::string temporary_name = "tandemrun-tmp-";

// Not open if another process has locked the folder, or if the file system has no locks.
FileDescriptor lock_folder(const fs::path& folder) {
  FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(file) : FileDescriptor();
}

// Removes the temporary folders of launchers that were killed together with their guardians. Chosen: a week is long
// enough to look at what a killed job has left.
void remove_leftovers(const fs::path& root) {
  constexpr auto patience = std::chrono::hours(7 * 24);
  std::error_code error;
  fs::directory_iterator entries(root, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto& folder = entries->path();
    struct stat status {};
    if (!folder.filename().string().starts_with(temporary_name) || ::lstat(folder.c_str(), &status) != 0) continue;
    const auto age = std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime);
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || age < patience) continue;
    std::error_code ignored;
    if (lock_folder(folder).is_open()) fs::remove_all(folder, ignored);
  }
}

}  // namespace

LogFolder::LogFolder(const std::string& root, const std::string& run_id, bool has_logs) {
  fs::path folder = root;
  if (root.empty()) {
    auto pattern = (fs::temp_directory_path() / (has_logs ? "tandemrun-XXXXXX" : temporary_name + "XXXXXX")).string();
    TANDEM_CHECK(mkdtemp(pattern.data()), "cannot make the folder ", pattern, ": ", std::strerror(errno));
    folder = pattern;
    if (has_logs) {
      std::fprintf(stderr, "tandemrun: logs are in %s\n", folder.c_str());
    } else {
      temporary_ = folder;
      lock_ = lock_folder(folder);
      remove_leftovers(folder.parent_path());
    }
  }
  auto name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  run_ = fs::absolute(folder) / name;
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

fs::path LogFolder::of(int generation, int local_rank) const {
  const auto folder = run_ / ("attempt_" + std::to_string(generation)) / std::to_string(local_rank);
  create_folder(folder, "for logs");
  std::error_code ignored;
  fs::remove(folder / "error.json", ignored);
  return folder;
}

}  // namespace tandem::distributed

#include <tandem/distributed/system/temporary_folder.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

FileDescriptor lock(const fs::path& folder, int how) {
  FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), how | LOCK_NB) == 0 ? std::move(file) : FileDescriptor();
}

}  // namespace

FileDescriptor use_folder(const fs::path& folder) { return lock(folder, LOCK_SH); }

void remove_old_folders(const fs::path& root, const std::string& prefix) {
  // Chosen: a week is long enough to look at what a failed or killed job has left.
  constexpr auto patience = std::chrono::days(7);
  std::error_code error;
  fs::directory_iterator entries(root, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto& folder = entries->path();
    struct stat status {};
    if (!folder.filename().string().starts_with(prefix) || ::lstat(folder.c_str(), &status) != 0) continue;
    const auto age = std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime);
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || age < patience) continue;
    std::error_code ignored;
    if (lock(folder, LOCK_EX).is_open()) fs::remove_all(folder, ignored);
  }
}

}  // namespace tandem::distributed

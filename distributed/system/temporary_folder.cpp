#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>
#include <tandem/distributed/system/temporary_folder.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;

FileDescriptor lock(const fs::path& folder, int how) {
  FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), how | LOCK_NB) == 0 ? std::move(file) : FileDescriptor();
}

bool is_ours(const fs::path& folder) {
  struct stat about {};
  return ::lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid();
}

}  // namespace

fs::path temporary_root() {
  std::error_code error;
  const auto root = fs::temp_directory_path(error);
  const char* given = std::getenv("TMPDIR");
  TANDEM_CHECK(!error, "there is no folder for temporary files: TMPDIR is ", given ? given : "not set",
               ", expected an existing folder: unset it to use /tmp");
  return root;
}

FileDescriptor use_folder(const fs::path& folder) { return lock(folder, LOCK_SH); }

void remove_old_folders(const fs::path& own, const std::string& prefix) {
  // A week is long enough to look at the files of a failed or killed job.
  const auto old = fs::file_time_type::clock::now() - std::chrono::days(7);
  std::vector<std::pair<fs::file_time_type, fs::path>> others;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(own.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    const auto& folder = entry->path();
    if (folder != own && folder.filename().string().starts_with(prefix) && is_ours(folder))
      others.emplace_back(fs::last_write_time(folder, ignored), folder);
  }
  std::ranges::sort(others);
  if (!others.empty()) others.pop_back();
  for (const auto& [time, folder] : others)
    if (time <= old && lock(folder, LOCK_EX).is_open()) fs::remove_all(folder, ignored);
}

fs::path shared_folder(const std::string& prefix, const std::string& name) {
  const auto folder = temporary_root() / (prefix + name);
  if (::mkdir(folder.c_str(), 0700) == 0) {
    remove_old_folders(folder, prefix);
    return folder;
  }
  TANDEM_CHECK(errno == EEXIST, "cannot make the folder ", folder.string(), ": ", explain_file_error(errno));
  TANDEM_CHECK(is_ours(folder), folder.string(), " is not a folder of this user");
  return folder;
}

}  // namespace tandem::distributed

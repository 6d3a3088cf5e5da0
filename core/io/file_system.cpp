#include <tandem/core/io/file_system.h>

#include <tandem/core/base/check.h>

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tandem {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

bool is_there(const fs::path& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  TANDEM_CHECK(!error, "cannot find out whether ", path.string(), " exists: ", error.message());
  return found;
}

int synchronise_folder(const fs::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return errno == EACCES ? 0 : errno;
  const int error_number = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  return error_number == EINVAL || error_number == ENOTSUP ? 0 : error_number;
}

bool is_safe_entry(uid_t owner, uid_t folder_owner, mode_t folder_mode, uid_t user) {
  constexpr mode_t shared = S_ISVTX | S_IWOTH;
  return owner == user || owner == folder_owner || (folder_mode & shared) != shared;
}

void check_entries(const fs::path& path) {
  struct stat folder {};
  struct stat entry {};
  fs::path part;
  for (const fs::path& name : fs::absolute(path)) {
    part /= name;
    if (::stat(folder_of(part).c_str(), &folder) != 0 || ::lstat(part.c_str(), &entry) != 0) return;
    TANDEM_CHECK(is_safe_entry(entry.st_uid, folder.st_uid, folder.st_mode, ::geteuid()), "cannot write ",
                 path.string(), ": ", part.string(), " belongs to another user (uid ", entry.st_uid,
                 "), and everyone may write to the folder that contains it, so that user could lead this job to other "
                 "files; remove it, or give a path in your own folder");
  }
}

UserEntry entry_of(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  char texts[4096];
  if (::getpwuid_r(user, &entry, texts, sizeof texts, &found) != 0 || found == nullptr) return {};
  return {entry.pw_name, entry.pw_dir};
}

void create_folder(const fs::path& folder, const std::string& purpose) {
  const auto require = [&](int error_number) {
    TANDEM_CHECK(error_number == 0, "can't create the folder ", folder.string(), ' ', purpose, ": ",
                 explain_file_error(error_number));
  };
  require(folder.empty() ? ENOENT : 0);
  check_entries(folder);
  fs::path path, deepest;
  // The deepest existing folder may be new: a process may have created it and been killed before it synchronised the
  // parent.
  const auto keep_deepest = [&] {
    if (!deepest.empty()) require(synchronise_folder(folder_of(deepest)));
    deepest.clear();
  };
  for (const fs::path& name : folder) {
    if (name.empty()) continue;  // after a trailing "/"
    path /= name;
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      deepest = path;
      continue;
    }
    keep_deepest();
    const int error_number = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
    // Another process may have created this folder meanwhile, and may be killed before it synchronises the parent.
    const bool is_there = error_number == EEXIST && fs::is_directory(path, ignored);
    require(is_there ? 0 : error_number == EEXIST ? ENOTDIR : error_number);
    require(synchronise_folder(folder_of(path)));
  }
  keep_deepest();
}

}  // namespace tandem

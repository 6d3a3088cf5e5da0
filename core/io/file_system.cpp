#include <tandem/core/io/file_system.h>

#include <tandem/core/base/check.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tandem {

namespace {

namespace fs = std::filesystem;

const char* advice_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return "free space on that file system or write to another one";
    case EFBIG: return "raise the limit on the size of a file (ulimit -f) or write to another file system";
    case EACCES:
    case EPERM: return "write to a folder that you may write to, or change its permissions";
    case EROFS: return "the file system is mounted read-only; write to another one";
    case ENOENT: return "create the folder first or correct the path";
    case ENOTDIR: return "a part of the path is a file, not a folder; correct the path";
    case EISDIR: return "that is a folder; name a file";
    case ENAMETOOLONG: return "choose a shorter name";
    default: return "check the file system or write to another one";
  }
}

}  // namespace

std::string reason_for(int error_number) { return std::generic_category().message(error_number); }

std::string explain_file_error(int error_number) { return reason_for(error_number) + "; " + advice_for(error_number); }

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

int synchronise_folder(const fs::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return errno == EACCES ? 0 : errno;
  const int error_number = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  return error_number == EINVAL || error_number == ENOTSUP ? 0 : error_number;
}

void create_folder(const fs::path& folder, const std::string& purpose) {
  const auto require = [&](int error_number) {
    TANDEM_CHECK(error_number == 0, "can't create the folder ", folder.string(), ' ', purpose, ": ",
                 explain_file_error(error_number));
  };
  require(folder.empty() ? ENOENT : 0);
  fs::path path, deepest;
  // The deepest one that is there may be new, made by a process that was killed before it synchronised the folder
  // above.
  const auto keep_deepest = [&] {
    if (!deepest.empty()) require(synchronise_folder(folder_of(deepest)));
    deepest.clear();
  };
  for (const fs::path& name : folder) {
    if (name.empty()) continue;  // of a "/" at the end
    path /= name;
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      deepest = path;
      continue;
    }
    keep_deepest();
    const int error_number = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
    // Another process may have made it meanwhile, and may be killed before it synchronises the folder above.
    const bool is_there = error_number == EEXIST && fs::is_directory(path, ignored);
    require(is_there ? 0 : error_number == EEXIST ? ENOTDIR : error_number);
    require(synchronise_folder(folder_of(path)));
  }
  keep_deepest();
}

}  // namespace tandem

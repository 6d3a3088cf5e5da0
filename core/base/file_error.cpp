#include <tandem/core/base/file_error.h>

#include <cerrno>
#include <system_error>

namespace tandem {
namespace {

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

}  // namespace tandem

#include <tandem/core/io/atomic_file.h>

#include <tandem/core/base/check.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/temporary_file.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace tandem {

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  TANDEM_CHECK(path_.has_filename(), "cannot write \"", path_.string(), "\": it does not name a file");
  TANDEM_CHECK(!std::filesystem::is_directory(path_, error), "cannot write ", path_.string(),
               ": it is a folder; give the name of a file in it");
  struct stat there {};
  constexpr int most_links = 40;  // the limit of Linux
  check_entries(path_);
  for (int links = 0; ::lstat(path_.c_str(), &there) == 0 && S_ISLNK(there.st_mode); ++links) {
    TANDEM_CHECK(links < most_links, "cannot write ", path_.string(), ": its symbolic links form a loop");
    const auto target = std::filesystem::read_symlink(path_, error);
    if (error) fail("follow the symbolic link", error.value());
    path_ = folder_of(path_) / target;
    check_entries(path_);  // following a link this way bypasses the kernel's own protection
  }
  // Fails on a name that is too long now, instead of after writing everything.
  const bool exists = ::lstat(path_.c_str(), &there) == 0;
  if (!exists && errno == ENAMETOOLONG) fail("examine it", errno);
  // Renaming a file to the name of a device would remove the device for all programs.
  TANDEM_CHECK(!exists || S_ISREG(there.st_mode), "cannot write ", path_.string(),
               ": it is a device, a pipe or a socket; give the name of a file");
  // Creates the file without a name if the file system supports that: nothing is left of it if this process is killed.
  // commit() names the file through /proc, which a container may lack.
  if (::access("/proc/self/fd", F_OK) == 0)
    file_ = ::open(folder_of(path_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (file_ >= 0) {
    remove_leftovers(folder_of(path_), file_);
  } else {
    file_ = create_temporary(folder_of(path_), temporary_);
    is_named_ = file_ >= 0;
  }
  if (file_ < 0) fail("create a temporary file next to it", errno);
}

AtomicFile::~AtomicFile() { close_and_remove(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  TANDEM_CHECK(file_ >= 0, "cannot write ", path_.string(), ": it was already committed, or a write has failed");
  const std::size_t count = write_all(file_, bytes.data(), bytes.size());
  written_ += count;
  if (count < bytes.size()) fail("write", errno);
}

void AtomicFile::commit() {
  TANDEM_CHECK(file_ >= 0, "cannot commit ", path_.string(), ": it was already committed, or a write has failed");
  if (::fsync(file_) != 0) fail("sync it to the disk", errno);
  if (!is_named_) {
    const std::string handle = "/proc/self/fd/" + std::to_string(file_);
    do {
      temporary_ = temporary_path(folder_of(path_));
      is_named_ = ::linkat(AT_FDCWD, handle.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    } while (!is_named_ && errno == EEXIST);
    if (!is_named_) fail("name it", errno);
  }
  // On NFS, and with quotas, a failed write may be reported only here.
  const int closed = ::close(std::exchange(file_, -1));
  if (closed != 0 && errno != EINTR) fail("close", errno);
  try {
    rename_durably(temporary_, path_);
  } catch (...) {
    close_and_remove();
    throw;
  }
  is_named_ = false;
}

void AtomicFile::close_and_remove() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  if (is_named_) ::unlink(temporary_.c_str());
  is_named_ = false;
}

void AtomicFile::fail(const char* step, int error_number) {
  close_and_remove();
  detail::fail("cannot write ", path_.string(), ": could not ", step, " (", written_,
               " bytes had been written): ", explain_file_error(error_number), ". A previous file is unchanged.");
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int error_number = errno;
    detail::fail("cannot rename ", from.string(), " to ", to.string(), ": ", explain_file_error(error_number),
                 ". A previous file is unchanged.");
  }
  const int error_number = synchronise_folder(folder_of(to));
  TANDEM_CHECK(error_number == 0, "wrote ", to.string(),
               " but could not flush its folder to the disk, so a power failure may undo that: ",
               explain_file_error(error_number));
}

}  // namespace tandem

#include <tandem/core/io/lock_file.h>

#include <tandem/core/io/file_system.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <system_error>

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool has_open(const fs::path& process, const struct stat& file) {
  std::error_code error;
  for (fs::directory_iterator entries(process / "fd", error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    struct stat opened {};
    if (::stat(entries->path().c_str(), &opened) == 0 && opened.st_ino == file.st_ino && opened.st_dev == file.st_dev)
      return true;
  }
  return false;
}

std::string name_of(int pid, const fs::path& process) {
  std::string text = "process " + std::to_string(pid);
  struct stat status {};
  if (::stat(process.c_str(), &status) != 0)
    return text + " (it has ended, but a process that it started holds the lock)";
  std::string program;
  std::getline(std::ifstream(process / "comm"), program);
  for (char& letter : program)
    if (letter < ' ' || letter > '~') letter = '?';  // the name may be printed to a terminal
  const auto user = entry_of(status.st_uid).name;
  return text + " (" + program + ") of user " + (user.empty() ? std::to_string(status.st_uid) : user);
}

}  // namespace

int open_lock_file(const fs::path& path, int flags) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
  struct stat mine {};
  struct stat folder {};
  if (file < 0 || ::fstat(file, &mine) != 0 || mine.st_uid != ::geteuid() ||
      ::stat(folder_of(path).c_str(), &folder) != 0)
    return file;
  mode_t mode = 0600;
  if ((folder.st_mode & S_IWGRP) != 0 &&
      (mine.st_gid == folder.st_gid || ::fchown(file, static_cast<uid_t>(-1), folder.st_gid) == 0))
    mode |= 0060;
  if ((folder.st_mode & S_IWOTH) != 0 && (folder.st_mode & S_ISVTX) == 0) mode |= 0004;
  if ((mine.st_mode & 0777) != mode) ::fchmod(file, mode);
  return file;
}

bool is_at(const fs::path& path, int file) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string lock_holder(const fs::path& path) {
  constexpr const char* unknown = "another process";
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return unknown;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "1: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF". If a process waits for a lock, "->" precedes the kind.
    int pid = 0;
    unsigned major_number = 0, minor_number = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%*u: %*15[A-Z] %*15[A-Z] %*15[A-Z] %d %x:%x:%lu", &pid, &major_number, &minor_number,
                    &inode) != 4 ||
        inode != file.st_ino || pid <= 0)
      continue;
    // On some file systems, such as overlays, stat() returns a different device than /proc/locks.
    const fs::path process = "/proc/" + std::to_string(pid);
    const bool is_same_device = major(file.st_dev) == major_number && minor(file.st_dev) == minor_number;
    if (is_same_device || has_open(process, file)) return name_of(pid, process);
  }
  return unknown;
}

}  // namespace tandem

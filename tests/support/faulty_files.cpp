// Makes system calls on files fail on request, and keeps a journal of what a program did to its files. It is both a
// library for LD_PRELOAD and a part of test_faults. The library watches the folder FAULTY_FILES and writes the journal
// FAULTY_JOURNAL. The process whose RANK is FAULTY_RANK dies before call number FAULTY_KILL. Its disk is full from call
// number FAULTY_FULL on. In test_faults, the functions of faulty_files.h choose what is watched and what fails.
#include "support/faulty_files.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

using tandem::testing::FileCall;
using tandem::testing::JournalEntry;

struct OpenFile {
  bool is_watched = false;
  std::uint64_t inode = 0;
};

struct Watch {
  std::mutex mutex;
  bool is_set = false;
  std::string folder;
  int journal = -1;
  long calls = 0;
  long failing = 0;
  long kills = 0;  // the call before which the process kills itself
  long full = 0;   // from this call on, writes fail
  int error = 0;
  bool lasts = false;
  std::array<OpenFile, 65536> files;
};

std::atomic<bool> holding{false};
std::atomic<long> held{0};

// Never destroyed, because static objects that are destroyed later than those of this file still use files.
Watch& the_watch() {
  static Watch& watch = *new Watch;
  return watch;
}

void set(Watch& watch, const char* folder, const char* journal) {
  watch.is_set = true;
  if (watch.journal >= 0) syscall(SYS_close, watch.journal);
  watch.journal = -1;
  watch.folder = folder ? folder : "";
  watch.calls = watch.failing = 0;
  watch.files.fill({});
  if (journal) {
    const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND, 0600));
    // A high number, which programs don't close by chance.
    watch.journal = fcntl(file, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, file);
  }
}

// Sets `below` to the path relative to the watched folder, which is "" for the folder itself. Returns false if `path`
// is elsewhere.
bool is_below(const Watch& watch, const char* path, std::string& below) {
  if (watch.folder.empty() || path == nullptr) return false;
  std::string absolute = path;
  if (absolute.empty() || absolute[0] != '/') {
    std::array<char, PATH_MAX> current{};
    if (getcwd(current.data(), current.size()) == nullptr) return false;
    absolute = std::string(current.data()) + "/" + absolute;
  }
  if (!absolute.starts_with(watch.folder)) return false;
  below = absolute.substr(watch.folder.size());
  if (!below.empty() && below[0] != '/') return false;
  below.erase(0, below.find_first_not_of('/'));
  while (!below.empty() && below.back() == '/') below.pop_back();
  return true;
}

std::uint64_t inode_of(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 ? status.st_ino : 0;
}

std::uint64_t inode_of(const char* path) {
  struct stat status {};
  return lstat(path, &status) == 0 ? status.st_ino : 0;
}

void note(const Watch& watch, JournalEntry entry, const std::string& path, const std::string& target = "",
          const void* bytes = nullptr) {
  if (watch.journal < 0) return;
  const int error = errno;
  entry.path = static_cast<std::uint32_t>(path.size());
  entry.target = static_cast<std::uint32_t>(target.size());
  std::string text(reinterpret_cast<const char*>(&entry), sizeof entry);
  text += path + target;
  if (bytes) text.append(static_cast<const char*>(bytes), entry.bytes);
  if (syscall(SYS_write, watch.journal, text.data(), text.size()) != static_cast<long>(text.size())) std::abort();
  errno = error;
}

// Counts a call, and returns whether it fails. A write passes `half`, which becomes true if it should write only half.
bool fails(Watch& watch, bool* half = nullptr) {
  const long number = ++watch.calls;
  if (number == watch.kills) raise(SIGKILL);
  if (half && watch.full > 0 && number >= watch.full) {
    errno = ENOSPC;
    return true;
  }
  if (watch.failing == 0 || number < watch.failing) return false;
  if (number > watch.failing && !watch.lasts) return false;
  if (half && number == watch.failing && (watch.lasts || watch.error == 0)) {
    *half = true;
    return false;
  }
  errno = watch.error;
  return watch.error != 0;
}

Watch& lock_watch(std::unique_lock<std::mutex>& lock) {
  Watch& watch = the_watch();
  lock = std::unique_lock(watch.mutex);
  if (!watch.is_set) {
    set(watch, std::getenv("FAULTY_FILES"), std::getenv("FAULTY_JOURNAL"));
    const auto number = [](const char* name) { return std::getenv(name) ? std::atol(std::getenv(name)) : 0; };
    if (number("FAULTY_RANK") == number("RANK")) {
      watch.kills = number("FAULTY_KILL");
      watch.full = number("FAULTY_FULL");
    }
  }
  return watch;
}

OpenFile* watched(Watch& watch, int file) {
  if (file < 0 || file >= static_cast<int>(watch.files.size())) return nullptr;
  auto& found = watch.files[static_cast<std::size_t>(file)];
  return found.is_watched ? &found : nullptr;
}

int open_file(int folder, const char* path, int flags, mode_t mode) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  std::string below;
  const auto real = [&] { return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode)); };
  // No program under test opens files relative to an open folder.
  if ((folder != AT_FDCWD && path[0] != '/') || !is_below(watch, path, below)) return real();
  const bool is_unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  const bool makes = (flags & O_CREAT) != 0 && inode_of(path) == 0;
  const bool changes = is_unnamed || makes;
  int file = -1;
  if (!fails(watch)) file = real();
  JournalEntry entry{changes ? FileCall::create : FileCall::open, file < 0 ? errno : 0, 0, 0, 0, 0, 0};
  if (file >= 0) {
    entry.inode = inode_of(file);
    watch.files[static_cast<std::size_t>(file)] = {true, entry.inode};
    if (!changes && (flags & O_TRUNC) != 0) entry.call = FileCall::truncate;
  }
  note(watch, entry, is_unnamed ? "" : below);
  return file;
}

void wait_while_held(Watch& watch, int file, std::unique_lock<std::mutex>& lock) {
  if (!watched(watch, file) || !holding) return;
  lock.unlock();
  ++held;
  while (holding) usleep(1000);
  --held;
  lock.lock();
}

ssize_t write_file(int file, const void* bytes, std::size_t count, const off_t* offset) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  wait_while_held(watch, file, lock);
  const auto real = [&](std::size_t part) {
    return offset ? syscall(SYS_pwrite64, file, bytes, part, *offset) : syscall(SYS_write, file, bytes, part);
  };
  const OpenFile* found = watched(watch, file);
  if (!found) return real(count);
  struct stat status {};
  fstat(file, &status);
  const bool appends = (fcntl(file, F_GETFL) & O_APPEND) != 0;
  const std::int64_t at = appends ? status.st_size : offset ? *offset : lseek(file, 0, SEEK_CUR);
  bool half = false;
  ssize_t written = -1;
  if (!fails(watch, &half)) written = real(half ? (count + 1) / 2 : count);
  note(watch,
       {FileCall::write, written < 0 ? errno : 0, found->inode, at, 0, 0,
        static_cast<std::uint64_t>(written < 0 ? 0 : written)},
       "", "", bytes);
  return written;
}

int synchronise(int file, long number, FileCall call) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  wait_while_held(watch, file, lock);
  const OpenFile* found = watched(watch, file);
  if (!found) return static_cast<int>(syscall(number, file));
  // Nothing is really synchronised: only the journal matters to the tests.
  const int result = fails(watch) ? -1 : 0;
  note(watch, {call, result < 0 ? errno : 0, found->inode, 0, 0, 0, 0}, "");
  return result;
}

int truncate_file(int file, off_t size) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  const OpenFile* found = watched(watch, file);
  if (!found) return static_cast<int>(syscall(SYS_ftruncate, file, size));
  const int result = fails(watch) ? -1 : static_cast<int>(syscall(SYS_ftruncate, file, size));
  note(watch, {FileCall::truncate, result < 0 ? errno : 0, found->inode, size, 0, 0, 0}, "");
  return result;
}

int rename_file(const char* from, const char* to, unsigned flags) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  const auto real = [&] { return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags)); };
  std::string below, target;
  if (!is_below(watch, from, below) || !is_below(watch, to, target)) return real();
  const std::uint64_t inode = inode_of(from);
  const int result = fails(watch) ? -1 : real();
  note(watch, {FileCall::rename, result < 0 ? errno : 0, inode, 0, 0, 0, 0}, below, target);
  return result;
}

int link_file(const char* from, const char* to, int flags) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  std::string target;
  const auto real = [&] { return static_cast<int>(syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, flags)); };
  if (!is_below(watch, to, target)) return real();
  const int result = fails(watch) ? -1 : real();
  note(watch, {FileCall::link, result < 0 ? errno : 0, result < 0 ? 0 : inode_of(to), 0, 0, 0, 0}, target);
  return result;
}

int remove_file(const char* path, int flags) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  std::string below;
  const auto real = [&] { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, flags)); };
  if (!is_below(watch, path, below)) return real();
  const int result = fails(watch) ? -1 : real();
  note(watch, {FileCall::remove, result < 0 ? errno : 0, 0, 0, 0, 0, 0}, below);
  return result;
}

int make_folder(const char* path, mode_t mode) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  std::string below;
  const auto real = [&] { return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode)); };
  if (!is_below(watch, path, below)) return real();
  const int result = fails(watch) ? -1 : real();
  note(watch, {FileCall::mkdir, result < 0 ? errno : 0, result < 0 ? 0 : inode_of(path), 0, 0, 0, 0}, below);
  return result;
}

mode_t mode_in(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

#define OPEN_WITH(folder)                        \
  va_list arguments;                             \
  va_start(arguments, flags);                    \
  const mode_t mode = mode_in(flags, arguments); \
  va_end(arguments);                             \
  return open_file(folder, path, flags, mode)

extern "C" {

void faulty_files_watch(const char* folder, const char* journal) {
  Watch& watch = the_watch();
  const std::lock_guard lock(watch.mutex);
  set(watch, folder, journal);
}

void faulty_files_fail(long number, int error, bool lasts) {
  Watch& watch = the_watch();
  const std::lock_guard lock(watch.mutex);
  watch.failing = number;
  watch.error = error;
  watch.lasts = lasts;
}

void faulty_files_hold(bool holds) { holding = holds; }
long faulty_files_held() { return held; }

long faulty_files_calls() {
  Watch& watch = the_watch();
  const std::lock_guard lock(watch.mutex);
  return watch.calls;
}

int open(const char* path, int flags, ...) { OPEN_WITH(AT_FDCWD); }
int open64(const char* path, int flags, ...) { OPEN_WITH(AT_FDCWD); }
int openat(int folder, const char* path, int flags, ...) { OPEN_WITH(folder); }
int openat64(int folder, const char* path, int flags, ...) { OPEN_WITH(folder); }
int __open_2(const char* path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }

ssize_t write(int file, const void* bytes, size_t count) { return write_file(file, bytes, count, nullptr); }
ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) { return write_file(file, bytes, count, &at); }
ssize_t pwrite64(int file, const void* bytes, size_t count, off_t at) { return write_file(file, bytes, count, &at); }
ssize_t writev(int file, const iovec* parts, int count) {
  {
    std::unique_lock<std::mutex> lock;
    if (!watched(lock_watch(lock), file)) return syscall(SYS_writev, file, parts, count);
  }
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write_file(file, bytes.data(), bytes.size(), nullptr);
}

int fsync(int file) { return synchronise(file, SYS_fsync, FileCall::sync); }
int fdatasync(int file) { return synchronise(file, SYS_fdatasync, FileCall::sync); }
int syncfs(int file) noexcept { return synchronise(file, SYS_syncfs, FileCall::sync_all); }
int ftruncate(int file, off_t size) noexcept { return truncate_file(file, size); }
int ftruncate64(int file, off_t size) noexcept { return truncate_file(file, size); }

int rename(const char* from, const char* to) noexcept { return rename_file(from, to, 0); }
int link(const char* from, const char* to) noexcept { return link_file(from, to, 0); }
int linkat(int, const char* from, int, const char* to, int flags) noexcept { return link_file(from, to, flags); }
int unlink(const char* path) noexcept { return remove_file(path, 0); }
int rmdir(const char* path) noexcept { return remove_file(path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  struct stat status {};
  const bool is_folder = lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return remove_file(path, is_folder ? AT_REMOVEDIR : 0);
}
int mkdir(const char* path, mode_t mode) noexcept { return make_folder(path, mode); }

int close(int file) {
  std::unique_lock<std::mutex> lock;
  Watch& watch = lock_watch(lock);
  OpenFile* found = watched(watch, file);
  int result = static_cast<int>(syscall(SYS_close, file));
  if (!found) return result;
  if (fails(watch)) result = -1;
  note(watch, {FileCall::close, result < 0 ? errno : 0, found->inode, 0, 0, 0, 0}, "");
  *found = {};
  return result;
}
}

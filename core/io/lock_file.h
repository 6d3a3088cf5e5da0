// Lock files: files that flock(2) locks against other processes.
#pragma once

#include <filesystem>
#include <string>

namespace tandem {

// Opens the lock file `path` for reading and writing, with `flags` in addition, and creates it if it does not exist.
// flock() requires no write permission: a user who may only read a file can hold its lock forever. The file is
// therefore created so that only its owner can open it. If the folder is writable by a group, the group's members can
// open it too. If everyone may remove files in the folder, everyone may read the file, to find out whether it was left
// behind. Returns the descriptor, or -1 with errno. Does not follow symbolic links.
int open_lock_file(const std::filesystem::path& path, int flags = 0);

// Returns whether the open file still has this name: it may have been renamed or removed between open() and flock(). A
// symbolic link counts as a different file.
bool is_at(const std::filesystem::path& path, int file);

// Returns the process that holds a lock of the file: "process 7 (sleep) of user eve". Returns "another process" if
// Linux does not say which: it may be on another host or in another container.
std::string lock_holder(const std::filesystem::path& path);

}  // namespace tandem

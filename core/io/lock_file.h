// Lock files: files that flock(2) locks against other processes.
#pragma once

#include <filesystem>
#include <string>

namespace tandem {

// Opens the lock file `path` to read and write, with `flags` besides, and makes it where it is missing. flock needs no
// permission to write: who may only read a file can hold it forever. So only the owner can open the file. In a
// folder to which a group may write, its members can open it too. In one where everyone may remove files, everyone may
// read it, to find out whether it was left behind. Returns the descriptor, or -1 with errno. Follows no symbolic link.
int open_lock_file(const std::filesystem::path& path, int flags = 0);

// Whether the open file still has this name: it may have been renamed or removed between open and flock. A symbolic
// link is another file.
bool is_at(const std::filesystem::path& path, int file);

// The process that holds a lock of the file: "process 7 (sleep) of user eve". "another process" where Linux does not
// say which one: it may be on another host or in another container.
std::string lock_holder(const std::filesystem::path& path);

}  // namespace tandem

// What all that writes files needs: folders to write to, and words for what the operating system refuses.
#pragma once

#include <tandem/core/base/file_error.h>

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tandem {

// The folder in which `path` lies: "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes durable which names `folder` holds. Returns 0 or the error number. Returns 0 also where that cannot be done: in
// a folder that one may write to but not read, and on a file system that does not know how.
int synchronise_folder(const std::filesystem::path& folder);

// Whether a process of `user` should follow a symbolic link of the user `owner` in a folder: what Linux decides with
// fs.protected_symlinks. In a sticky folder to which everyone may write, such as /tmp, a link of another user could
// lead a program to write over its own user's files. A link of the folder's owner is followed.
bool may_follow_link(uid_t owner, uid_t folder_owner, mode_t folder_mode, uid_t user);

struct UserEntry {
  std::string name, home;
};
// What the system's list of users says of `user`; empty texts: nothing. Any thread may call it.
UserEntry entry_of(uid_t user);

// Makes `folder` and those above it, where they aren't there yet. Those that it makes outlive a loss of power, and so
// does the deepest one that is there already: a process that was killed, or an error, may have come right after it was
// made. The Error names the folder and `purpose` ("for checkpoints").
void create_folder(const std::filesystem::path& folder, const std::string& purpose);

}  // namespace tandem

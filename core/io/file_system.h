// Functions for all code that writes files: they find, create and synchronise folders.
#pragma once

#include <tandem/core/base/file_error.h>

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tandem {

// Returns the folder that contains `path`: "." for a plain name.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Returns whether there is such a file or folder. Throws an Error if that can't be found out, for example because a
// folder can't be read.
bool is_there(const std::filesystem::path& path);

// Makes the names in `folder` durable. Returns 0 or the error number. Also returns 0 if that is impossible: in a folder
// that this process may write but not read, and on a file system that does not support it.
int synchronise_folder(const std::filesystem::path& folder);

// Returns whether a process of `user` should use an entry of a folder: a symbolic link, a folder or a file. Linux
// applies the same rule to links with fs.protected_symlinks: in a sticky folder to which everyone may write, such as
// /tmp, another user's entry could make a program overwrite its own user's files. An entry of the folder's owner is
// used.
bool is_safe_entry(uid_t owner, uid_t folder_owner, mode_t folder_mode, uid_t user);
// Throws an Error if an entry of which `path` consists is not safe. It says which.
void check_entries(const std::filesystem::path& path);

// The name and home folder of `user` in the system's list of users. Both are empty if the list does not have the user.
struct UserEntry {
  std::string name, home;
};
UserEntry entry_of(uid_t user);  // may be called from any thread

// Creates `folder` and its missing parents. The created folders survive a power failure. The deepest folder that
// already exists is synchronised too, because the process that created it may have been killed before it did so. The
// Error names the folder and `purpose` ("for checkpoints").
void create_folder(const std::filesystem::path& folder, const std::string& purpose);

}  // namespace tandem

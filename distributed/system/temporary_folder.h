// Temporary folders that processes share, and what killed processes leave of them.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// Says that this process uses `folder`, until the result is closed: a shared lock. Not open where the file system has
// no locks.
FileDescriptor use_folder(const std::filesystem::path& folder);

// Removes the folders in `root` whose names begin with `prefix`, if they are this user's, nothing was made in them for
// a week, and no process uses them.
void remove_old_folders(const std::filesystem::path& root, const std::string& prefix);

}  // namespace tandem::distributed

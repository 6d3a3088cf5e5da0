// Temporary folders that processes share, and what killed processes leave of them.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// The folder for temporary files: TMPDIR, or /tmp. Error when TMPDIR names no folder, as after the end of a batch job.
std::filesystem::path temporary_root();

// Says that this process uses `folder`, until the result is closed: a shared lock. Not open where the file system has
// no locks.
FileDescriptor use_folder(const std::filesystem::path& folder);

// Removes the folders in `root` whose names begin with `prefix`, if they are this user's, nothing was made in them for
// a week, and no process uses them.
void remove_old_folders(const std::filesystem::path& root, const std::string& prefix);

// The prefix of folders with flight records (distributed/groups/observers/flight_recorder.h).
inline constexpr const char* flight_folders = "tandem-flight-";

// Makes the folder `prefix`NAME, which is this user's alone, in the folder for temporary files, or finds it there.
// Removes old folders with this prefix. Error when the folder can't be made or belongs to another user.
std::filesystem::path shared_folder(const std::string& prefix, const std::string& name);

}  // namespace tandem::distributed

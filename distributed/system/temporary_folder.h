// Temporary folders that processes share, and their removal after killed processes.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <filesystem>
#include <string>

namespace tandem::distributed {

// Returns the folder for temporary files: TMPDIR, or /tmp. Throws an Error if TMPDIR is not a folder, for example after
// the end of a batch job.
std::filesystem::path temporary_root();

// Marks `folder` as used by this process until the result is closed, with a shared lock. The result is not open if the
// file system does not support locks.
FileDescriptor use_folder(const std::filesystem::path& folder);

// Removes the folders beside `own` whose names begin with `prefix`, if they belong to this user, nothing was created in
// them for a week, and no process uses them. The newest of them stays, because its user may still need it.
void remove_old_folders(const std::filesystem::path& own, const std::string& prefix);

// The prefix of folders with flight records (distributed/groups/observers/flight_recorder.h).
inline constexpr const char* flight_folders = "tandem-flight-";

// Returns the private folder `prefix`NAME in the folder for temporary files, and creates it if it does not exist.
// Removes old folders with this prefix. Throws an Error if the folder can't be created or belongs to another user.
std::filesystem::path shared_folder(const std::string& prefix, const std::string& name);

}  // namespace tandem::distributed

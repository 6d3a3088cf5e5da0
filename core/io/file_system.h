// What all that writes files needs: folders to write to, and words for what the operating system refuses.
#pragma once

#include <filesystem>
#include <string>

namespace tandem {

// What an error number of the operating system means: "No space left on device".
std::string reason_for(int error_number);
// The same, and what to do about it where one wanted to write:
// "No space left on device; free space on that file system or write to another one".
std::string explain_file_error(int error_number);

// The folder in which `path` lies: "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes durable which names `folder` holds. Returns 0 or the error number. Returns 0 also where that cannot be done: in
// a folder that one may write to but not read, and on a file system that does not know how.
int synchronise_folder(const std::filesystem::path& folder);

// Makes `folder` and those above it, where they aren't there yet. Those that it makes outlive a loss of power, and so
// does the deepest one that is there already: a process that was killed, or an error, may have come right after it was
// made. The Error names the folder and `purpose` ("for checkpoints").
void create_folder(const std::filesystem::path& folder, const std::string& purpose);

}  // namespace tandem

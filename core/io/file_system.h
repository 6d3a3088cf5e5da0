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

// Makes `folder` and those above it, where they aren't there yet. The Error names the folder and `purpose` ("for
// checkpoints").
void create_folder(const std::filesystem::path& folder, const std::string& purpose);

}  // namespace tandem

// Files that are not yet what they shall become, and what killed writers leave of them.
#pragma once

#include <filesystem>

namespace tandem {

// A path in `folder` for a temporary file: ".tandem-", 16 random hexadecimal digits and ".tmp". Processes on several
// hosts, or in containers with equal process ids, do not meet at one name. Error when the system gives no random bits.
std::filesystem::path temporary_path(const std::filesystem::path& folder);

// Creates a file at a temporary_path() of `folder`, open for reading and writing, and sets `path`. No file that was
// there before is opened. Returns the descriptor, or -1 with errno.
int create_temporary(const std::filesystem::path& folder, std::filesystem::path& path);

// Removes the temporary files of `folder` that were not written to for a day: their writers were killed. `file` is a
// file that was just created there; its owner and its time, which the file system gave it, say whose files are removed
// and what time it is. Each process looks once into each folder. create_temporary() calls this.
void remove_leftovers(const std::filesystem::path& folder, int file);

}  // namespace tandem

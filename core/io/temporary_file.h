// Creates temporary files, and removes those that killed writers left behind.
#pragma once

#include <filesystem>

namespace tandem {

// Returns a path in `folder` for a temporary file: ".tandem-", 16 random hexadecimal digits and ".tmp". The names of
// processes on several hosts, or in containers with equal process ids, therefore don't collide. Throws an Error if the
// system returns no random bits.
std::filesystem::path temporary_path(const std::filesystem::path& folder);

// Creates a file at a temporary_path() of `folder`, opens it for reading and writing, and sets `path`. Never opens an
// existing file. Returns the descriptor, or -1 with errno.
int create_temporary(const std::filesystem::path& folder, std::filesystem::path& path);

// Removes temporary files of `folder` that have not been written to for a day, because their writers were killed.
// `file` is a file that was just created there. Its owner says whose files to remove, and its time, which the file
// system set, is the current time. Each process checks a folder only once. create_temporary() calls this function.
void remove_leftovers(const std::filesystem::path& folder, int file);

}  // namespace tandem

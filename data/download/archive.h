// Unpacking of archives: tar and zip, compressed or not, by libarchive.
#pragma once

#include <filesystem>
#include <functional>

namespace tandem::data {

// Unpacks `archive` into `folder`, and makes the folder when it is missing. An archive may hold only files and folders:
// links, devices, absolute paths and paths that lead out of the folder are an Error. A file that exists already is
// replaced in one step. After a failure the files that were complete by then stay. Error when the archive is damaged or
// ends early, or when the disk is full. Processes that unpack the same archive take turns. A process whose turn comes
// when is_done() is true does nothing; an empty `is_done` counts as false.
void extract_archive(const std::filesystem::path& archive, const std::filesystem::path& folder,
                     const std::function<bool()>& is_done = {});

}  // namespace tandem::data

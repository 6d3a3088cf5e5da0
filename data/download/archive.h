// Archives: tar and zip, compressed or not, by libarchive.
#pragma once

#include <filesystem>
#include <functional>

namespace tandem::data {

// Unpacks `archive` into `folder`, which is made where it is missing. Only files and folders: links, devices, absolute
// paths and paths that lead out of the folder are an Error. A file that is there already is replaced, each in one step;
// when something fails, the files that were whole by then stay. Error when the archive is damaged or ends early, or the
// disk is full. Processes that unpack the same archive take turns; whose turn comes when `is_done` (empty: never) has
// nothing to do.
void extract_archive(const std::filesystem::path& archive, const std::filesystem::path& folder,
                     const std::function<bool()>& is_done = {});

}  // namespace tandem::data

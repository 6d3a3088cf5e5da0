// Archives: tar and zip, compressed or not, by libarchive.
#pragma once

#include <filesystem>

namespace tandem::data {

// Unpacks `archive` into `folder`, which is made where it is missing. Only files and folders: links, devices, absolute paths and
// paths that lead out of the folder are an Error. A file that is there already is replaced, each in one step; when something
// fails, what was unpacked until then stays. Error when the archive is damaged or ends early.
void extract_archive(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace tandem::data

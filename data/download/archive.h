// Unpacking of archives: tar, tar.gz and zip, by libarchive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace tandem::data {

// The most that an archive may hold; more is an Error.
struct ArchiveLimits {
  std::int64_t entries = 1'000'000;
  std::int64_t bytes = std::int64_t{16} << 30;  // of all files together, once unpacked
};

// Unpacks `archive` into `folder`, and makes the folder when it is missing. An archive may hold only files and folders:
// links, devices, absolute paths and paths that lead out of the folder are an Error. A file that exists already is
// replaced in one step. After a failure the files that were complete by then stay. Error when the archive is damaged or
// ends early, or when the disk is full. All files are on the disk when the function returns. Until then `folder` holds
// a mark, an empty file with the name of the archive and ".unpacking". Processes that unpack the same archive take
// turns, where the file system has locks. A process whose turn comes when is_done() is true does nothing; an empty
// `is_done` counts as false.
void extract_archive(const std::filesystem::path& archive, const std::filesystem::path& folder,
                     const std::function<bool()>& is_done = {}, const ArchiveLimits& limits = {});

// Whether `folder` holds that mark: the archive is being unpacked, or the process was killed, or it failed, or the
// power was lost. What is there may lack files, and bytes of files.
bool is_half_unpacked(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace tandem::data

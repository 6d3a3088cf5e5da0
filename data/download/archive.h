// Unpacks tar, tar.gz and zip archives with libarchive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace tandem::data {

// The limits of an archive. An archive that exceeds them is an Error.
struct ArchiveLimits {
  std::int64_t entries = 1'000'000;
  std::int64_t bytes = std::int64_t{16} << 30;  // total size of all unpacked files
};

// Unpacks `archive` into `folder`, which is created if it is missing. An archive may hold only files and folders:
// links, devices, absolute paths and paths that lead out of the folder are an Error. A file that already exists is
// replaced atomically. After a failure, the files that were already complete stay. Throws an Error if the archive is
// damaged or ends early, or if the disk is full. All files are on disk when the function returns. Until then `folder`
// holds a mark: an empty file with the archive's name and ".unpacking". Processes that unpack the same archive take
// turns if the file system has locks. If is_done() is true when a process gets its turn, the process does nothing. An
// empty `is_done` counts as false.
void extract_archive(const std::filesystem::path& archive, const std::filesystem::path& folder,
                     const std::function<bool()>& is_done = {}, const ArchiveLimits& limits = {});

// Returns whether `folder` holds that mark. The archive is then being unpacked, or unpacking was interrupted by an
// error, a kill or a power failure. Files may be missing or incomplete.
bool is_half_unpacked(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace tandem::data

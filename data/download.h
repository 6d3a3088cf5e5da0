// Downloads: mirrors, checksum, resumption, never a partial file.
#pragma once

#include <tandem/core/check.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// No mirror gave the right file: no network, refused, wrong content. Other errors (disk, permissions) are
// plain Errors.
class DownloadError : public Error {
 public:
  using Error::Error;
};

struct DownloadOptions {
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds stall_timeout{20};  // give a mirror up when it sends almost nothing for so long
  std::chrono::seconds lock_timeout{600};  // wait so long for another process that downloads the same file
  std::function<void(const std::string&)> report = {};  // gets one line about every second; may be empty
};

// Makes `destination` the file whose MD5 is `md5` (32 hexadecimal digits). Nothing happens where it is that
// already. Else the URLs are tried in order; what has arrived is kept in `destination`.part and resumed, by
// the next mirror or the next call; the file gets its name only when the checksum is right. Creates the
// folder. Processes that download the same file take turns. Not cancellable, but every wait in it has a
// timeout.
void download(const std::vector<std::string>& urls, const std::filesystem::path& destination,
              const std::string& md5, const DownloadOptions& options = {});

// The MD5 of a file's bytes, as 32 lower-case hexadecimal digits.
std::string md5_of(const std::filesystem::path& path);

}  // namespace tandem::data

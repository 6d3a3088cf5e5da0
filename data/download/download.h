// Downloads: mirrors, checksum, resumption, never a partial file.
#pragma once

#include <tandem/core/base/check.h>

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

// What a file's bytes must be: its MD5 (32 hexadecimal digits), its SHA-256 (64), or the beginning of the latter.
struct Checksum {
  enum class Kind { md5, sha256 } kind;
  std::string digits;  // lower case; of SHA-256 at least the first 8

  Checksum(const char* digits) : Checksum(std::string(digits)) {}  // NOLINT: an MD5 or a whole SHA-256
  Checksum(std::string digits);                                    // NOLINT
  static Checksum sha256(std::string beginning);
  // Error when the file can't be read.
  bool fits(const std::filesystem::path& path) const { return found_in(path) == digits; }
  // As many digits of the file's as this has.
  std::string found_in(const std::filesystem::path& path) const;

 private:
  Checksum(Kind kind, std::string digits);
};

struct DownloadOptions {
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds stall_timeout{20};               // give a mirror up when it sends almost nothing for so long
  std::chrono::seconds lock_timeout{600};               // wait so long for another process that downloads the same file
  std::function<void(const std::string&)> report = {};  // gets one line about every second; may be empty
};

// Makes `destination` the file that has this checksum. Nothing happens where it is that already. Else the URLs are
// tried in order; what has arrived is kept in `destination`.part and resumed, by the next mirror or the next call; the
// file gets its name only when the checksum is right. Creates the folder. Processes that download the same file take
// turns. Not cancellable, but every wait in it has a timeout.
void download(const std::vector<std::string>& urls, const std::filesystem::path& destination, const Checksum& checksum,
              const DownloadOptions& options = {});

// The MD5 of a file's bytes, as 32 lower-case hexadecimal digits.
std::string md5_of(const std::filesystem::path& path);

// Where a user's downloads are kept: $XDG_CACHE_HOME/tandem/NAME, or ~/.cache/tandem/NAME.
std::filesystem::path cache_folder(const std::string& name);

}  // namespace tandem::data

// Downloads: mirrors, checksum, resumption, never a partial file.
#pragma once

#include <tandem/core/base/check.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// No mirror gave the right file: there is no network, a mirror refused, or the content is wrong. Other errors, such as
// those of the disk, are plain Errors.
class DownloadError : public Error {
 public:
  using Error::Error;
};

// The checksum that a file must have: an MD5 (32 hexadecimal digits), a SHA-256 (64 digits), or the beginning of a
// SHA-256.
struct Checksum {
  enum class Kind { md5, sha256 } kind;
  std::string digits;  // lower case; of SHA-256 at least the first 8

  Checksum(const char* digits) : Checksum(std::string(digits)) {}  // NOLINT: an MD5 or a whole SHA-256
  Checksum(std::string digits);                                    // NOLINT
  static Checksum sha256(std::string beginning);
  // Error when the file can't be read.
  bool fits(const std::filesystem::path& path) const { return found_in(path) == digits; }
  // The checksum of the file, cut to as many digits as this checksum has.
  std::string found_in(const std::filesystem::path& path) const;

 private:
  Checksum(Kind kind, std::string digits);
};

struct DownloadOptions {
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds stall_timeout{20};           // a mirror that sends almost nothing for so long is given up
  std::chrono::seconds lock_timeout{600};           // the longest wait for another process that downloads the same file
  std::chrono::seconds total_timeout{12 * 3600};    // of the transfers; each mirror gets its share of what is left
  std::int64_t max_bytes = std::int64_t{16} << 30;  // a mirror that sends more is given up
  std::function<void(const std::string&)> report = {};  // gets one line about every second; may be empty
};

// Makes `destination` the file that has this checksum. Nothing happens when it has the checksum already. Otherwise the
// URLs are tried in order. The bytes that have arrived are kept in `destination`.part, and the next mirror or the next
// call resumes there. The file gets its name only when the checksum is right. The folder is created when it is missing.
// Processes that download the same file take turns. Where the file system has no locks, each downloads to a file of its
// own. URLs are http:// or https://; what begins with https:// is redirected
// to https:// alone. SSL_CERT_FILE, where it is set, names the certificates to trust. A download can't be cancelled,
// but every wait in it has a timeout.
void download(const std::vector<std::string>& urls, const std::filesystem::path& destination, const Checksum& checksum,
              const DownloadOptions& options = {});

// The MD5 of a file's bytes, as 32 lower-case hexadecimal digits.
std::string md5_of(const std::filesystem::path& path);

}  // namespace tandem::data

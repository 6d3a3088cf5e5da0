// Downloads with mirrors, checksums and resumption. A partial file never gets the final name.
#pragma once

#include <tandem/core/base/check.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

// No mirror returned the right file: the network is down, a mirror refused, or the content is wrong. Other failures,
// such as disk errors, throw a plain Error.
class DownloadError : public Error {
 public:
  using Error::Error;
};

// The expected checksum of a file: an MD5 (32 hexadecimal digits), a SHA-256 (64 digits), or the beginning of a
// SHA-256.
struct Checksum {
  enum class Kind { md5, sha256 } kind;
  std::string digits;  // lower case; at least the first 8 of a SHA-256

  Checksum(const char* digits) : Checksum(std::string(digits)) {}  // NOLINT: an MD5 or a whole SHA-256
  Checksum(std::string digits);                                    // NOLINT
  static Checksum sha256(std::string beginning);
  // Throws an Error if the file can't be read.
  bool fits(const std::filesystem::path& path) const { return found_in(path) == digits; }
  // The checksum of the file, truncated to the number of digits of this checksum.
  std::string found_in(const std::filesystem::path& path) const;

 private:
  Checksum(Kind kind, std::string digits);
};

struct DownloadOptions {
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds stall_timeout{20};           // a mirror that sends almost nothing for this long is abandoned
  std::chrono::seconds lock_timeout{600};           // the longest wait for another process that downloads the same file
  std::chrono::seconds total_timeout{12 * 3600};    // for all transfers; each mirror gets its share of the remaining
                                                    // time
  std::int64_t max_bytes = std::int64_t{16} << 30;  // a mirror that sends more is abandoned
  std::function<void(const std::string&)> report = {};  // gets about one line per second; may be empty
};

// Makes `destination` the file that has this checksum. If it already has the checksum, the function does nothing.
// Otherwise it tries the URLs in order. The bytes that have arrived are kept in `destination`.part, and the next mirror
// or the next call resumes there. The file gets its name only when the checksum is right. The folder is created if it
// is missing. Processes that download the same file take turns. On a file system without locks, each process downloads
// to its own file. URLs are http:// or https://. An https:// URL may be redirected only to https://. If SSL_CERT_FILE
// is set, it names the certificates to trust. A download can't be cancelled, but every wait in it has a timeout.
void download(const std::vector<std::string>& urls, const std::filesystem::path& destination, const Checksum& checksum,
              const DownloadOptions& options = {});

// The MD5 of a file's bytes, as 32 lower-case hexadecimal digits.
std::string md5_of(const std::filesystem::path& path);

}  // namespace tandem::data

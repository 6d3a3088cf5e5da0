#include <tandem/core/base/deadline.h>
#include <tandem/data/download/download.h>

#include <tandem/core/base/write_all.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/lock_file.h>
#include <tandem/core/io/temporary_file.h>

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The file `destination`.part, opened for appending and locked against other processes. On a file system without locks,
// this process renames the file to a temporary name that no other process knows, and renames it back if the download
// fails.
class PartFile {
 public:
  // Waits while another process holds the lock. That process may finish the download and rename its file to the
  // destination, so the caller must check the destination again.
  PartFile(const fs::path& path, const DownloadOptions& options) : path_(path), shared_path_(path) {
    const auto deadline = RunningTime::now() + options.lock_timeout;
    bool has_said = false;
    while (!open_alone(options)) {
      if (!has_said && options.report) options.report(path_.string() + ": another process is downloading it, waiting");
      has_said = true;
      TANDEM_CHECK(RunningTime::now() < deadline, "download: ", lock_holder(path_), " has held ", path_.string(),
                   " for ", options.lock_timeout.count(), " s; end that process, or remove the file, and try again");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  ~PartFile() {
    // An empty file is useless for resuming.
    if (!path_.empty() && size() == 0) ::unlink(path_.c_str());
    else if (!path_.empty() && path_ != shared_path_) ::rename(path_.c_str(), shared_path_.c_str());
    ::close(file_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  std::int64_t size() const { return ::lseek(file_, 0, SEEK_END); }
  const fs::path& path() const { return path_; }

  // Appends to the file. Returns 0, or the error number.
  int append(const char* data, std::size_t bytes) { return write_all(file_, data, bytes) == bytes ? 0 : errno; }
  void discard() {
    TANDEM_CHECK(::ftruncate(file_, 0) == 0, "download: cannot empty ", path_.string(), ": ", reason_for(errno));
  }
  // Writes the existing bytes again. An earlier process may have failed to flush them: Linux reports that error only
  // once, and then treats the bytes as written, so a second fsync() would succeed without them.
  void write_again() {
    const auto require = [&](bool is_done) {
      TANDEM_CHECK(is_done, "download: cannot write ", path_.string(), " again: ", reason_for(errno),
                   "; remove it, or choose another folder");
    };
    require(::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_APPEND) == 0);
    std::vector<char> block(1 << 20);
    for (std::int64_t offset = 0, end = size(); offset < end;) {
      const ssize_t count = ::pread(file_, block.data(), block.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) errno = EIO;  // another process has truncated the file
      require(count > 0);
      const auto bytes = static_cast<std::size_t>(count);
      require(write_all(file_, block.data(), bytes, offset) == bytes);
      offset += count;
    }
  }
  void become(const fs::path& destination) {
    take_usual_mode();
    TANDEM_CHECK(::fsync(file_) == 0, "download: cannot write ", path_.string(), " to the disk: ", reason_for(errno));
    rename_durably(path_, destination);
    path_.clear();
  }

 private:
  fs::path path_;         // the current path of the file; empty after it has become the destination
  fs::path shared_path_;  // the path that other processes use
  int file_ = -1;

  void open() {
    file_ = open_lock_file(path_, O_APPEND);
    TANDEM_CHECK(file_ >= 0, "download: cannot create ", path_.string(), ": ", reason_for(errno),
                 "; choose a folder that you may write to");
  }

  // Gives the file the default permissions of new files in this folder, so that other users can open it.
  void take_usual_mode() {
    fs::path usual;
    const int other = create_temporary(folder_of(path_), usual);
    struct stat status {};
    if (other >= 0 && ::fstat(other, &status) == 0) ::fchmod(file_, status.st_mode & 0777);
    if (other < 0) return;
    ::close(other);
    ::unlink(usual.c_str());
  }

  // Returns whether only this process writes to the file from now on.
  bool open_alone(const DownloadOptions& options) {
    open();
    const int error_number = ::flock(file_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error_number == 0 && is_at(path_, file_)) return true;
    ::close(std::exchange(file_, -1));
    if (error_number == 0 || error_number == EWOULDBLOCK || error_number == EINTR) return false;
    const fs::path mine = temporary_path(folder_of(path_));
    if (::rename(path_.c_str(), mine.c_str()) != 0) return false;  // another process was faster
    if (options.report)
      options.report(path_.string() + ": downloading it without a lock, because the file system has none (" +
                     reason_for(error_number) + ")");
    path_ = mine;
    open();
    remove_leftovers(folder_of(path_), file_);
    return true;
  }
};

struct Transfer {
  PartFile& part;
  std::string name;
  const DownloadOptions& options;
  Clock::time_point deadline;
  // The number of bytes in the file before this transfer.
  std::int64_t begin;
  int write_error = 0;
  bool is_too_large = false;
  Clock::time_point last_report = Clock::now();
  // Whether the completed transfer has been reported.
  bool is_reported = false;
};

std::size_t on_data(char* data, std::size_t, std::size_t bytes, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.is_too_large = transfer.part.size() + static_cast<std::int64_t>(bytes) > transfer.options.max_bytes;
  if (transfer.is_too_large) return CURL_WRITEFUNC_ERROR;
  transfer.write_error = transfer.part.append(data, bytes);
  return transfer.write_error == 0 ? bytes : CURL_WRITEFUNC_ERROR;
}

std::string readable(std::int64_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{} kB", (bytes + 999) / 1000)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

int on_progress(void* user, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.options.report || now == 0 || transfer.is_reported) return 0;
  transfer.is_reported = now == total;
  if (!transfer.is_reported && Clock::now() - transfer.last_report < std::chrono::seconds(1)) return 0;
  transfer.last_report = Clock::now();
  // The total is 0 if the server does not send the size.
  const std::string all = total > 0 ? " of " + readable(transfer.begin + total) : "";
  transfer.options.report(transfer.name + ": " + readable(transfer.begin + now) + all);
  return 0;
}

// Restricts a transfer to HTTP and HTTPS. An HTTPS transfer can be redirected only to HTTPS.
void limit_protocols(CURL* curl, const std::string& url) {
  const bool is_safe = url.starts_with("https://");
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_safe ? "https" : "http,https");
#else
  const long both = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, both);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, is_safe ? static_cast<long>(CURLPROTO_HTTPS) : both);
#endif
}

// Makes one request and appends the received bytes to the part file. Returns nullopt on success, otherwise the problem.
// Sets `may_retry` to whether another try could succeed.
std::optional<std::string> fetch(const std::string& url, Transfer& transfer, bool& may_retry) {
  static std::once_flag initialised;
  std::call_once(initialised, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  TANDEM_CHECK(handle != nullptr, "download: libcurl cannot be initialised");
  CURL* curl = handle.get();
  std::array<char, CURL_ERROR_SIZE> text{};
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  limit_protocols(curl, url);
  if (const char* certificates = std::getenv("SSL_CERT_FILE"); certificates != nullptr && *certificates != 0)
    curl_easy_setopt(curl, CURLOPT_CAINFO, certificates);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "tandem");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text.data());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(transfer.options.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes per second
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(transfer.options.stall_timeout.count()));
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(transfer.deadline - Clock::now());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, std::max<long>(left.count(), 1));
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE,
                   std::max<curl_off_t>(transfer.options.max_bytes - transfer.begin, 1));
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.begin));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  const CURLcode result = curl_easy_perform(curl);
  TANDEM_CHECK(transfer.write_error == 0, "download: cannot write ", transfer.part.path().string(), ": ",
               reason_for(transfer.write_error), "; free space or choose another folder");
  if (result == CURLE_OK) return std::nullopt;
  if (transfer.is_too_large || result == CURLE_FILESIZE_EXCEEDED) {
    transfer.part.discard();
    // If the file had bytes from an earlier download, they may have been too many.
    may_retry = transfer.begin > 0;
    return fmt::format("it sends more than {} bytes, the limit for this file", transfer.options.max_bytes);
  }

  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  constexpr long range_not_satisfiable = 416;
  const bool has_grown = transfer.part.size() > transfer.begin;
  const bool cannot_resume = result == CURLE_RANGE_ERROR || (transfer.begin > 0 && status == range_not_satisfiable);
  if (cannot_resume) transfer.part.discard();
  may_retry = has_grown || cannot_resume;
  return text[0] != '\0' ? text.data() : curl_easy_strerror(result);
}

// The digest of the file, in lower-case hexadecimal digits.
std::string digest_of(const fs::path& path, const EVP_MD* algorithm) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  TANDEM_CHECK(file != nullptr, "checksum: cannot open ", path.string(), ": ", reason_for(errno));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  TANDEM_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1,
               "checksum: this system's OpenSSL does not offer ", EVP_MD_get0_name(algorithm));
  std::array<unsigned char, 1 << 16> buffer;
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    EVP_DigestUpdate(context.get(), buffer.data(), count);
  }
  TANDEM_CHECK(std::ferror(file.get()) == 0, "checksum: cannot read ", path.string(), ": ", reason_for(errno));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

// Downloads from `url` until the part file has the checksum. Returns whether it has; if not, `problem` describes the
// failure.
bool fetch_checked(const std::string& url, PartFile& part, const Checksum& checksum, const DownloadOptions& options,
                   Clock::time_point deadline, const std::string& name, std::string& problem) {
  constexpr int tries = 4;
  for (int i = 0; i < tries; ++i) {
    Transfer transfer{part, name, options, deadline, part.size()};
    bool may_retry = false;
    if (const auto failure = fetch(url, transfer, may_retry)) {
      problem = *failure;
      if (may_retry && Clock::now() < deadline) continue;
      return false;
    }
    const std::string found = checksum.found_in(part.path());
    if (found == checksum.digits) return true;
    problem =
        fmt::format("its content has the {} {}, expected {} ({} bytes)",
                    checksum.kind == Checksum::Kind::md5 ? "MD5" : "SHA-256", found, checksum.digits, part.size());
    part.discard();
    // If the file had bytes from an earlier download, they may have been wrong. The next try then starts from the
    // beginning.
    if (transfer.begin == 0) return false;
  }
  return false;
}

}  // namespace

Checksum::Checksum(std::string digits) : Checksum(digits.size() == 64 ? Kind::sha256 : Kind::md5, std::move(digits)) {
  TANDEM_CHECK(this->digits.size() == (kind == Kind::md5 ? 32u : 64u),
               "a checksum must be an MD5 of 32 digits or a SHA-256 of 64, got ", this->digits);
}

Checksum::Checksum(Kind kind, std::string digits) : kind(kind), digits(std::move(digits)) {
  TANDEM_CHECK(this->digits.find_first_not_of("0123456789abcdef") == std::string::npos,
               "a checksum must have lower-case hexadecimal digits, got ", this->digits);
}

Checksum Checksum::sha256(std::string beginning) {
  TANDEM_CHECK(beginning.size() >= 8 && beginning.size() <= 64, "the beginning of a SHA-256 needs 8 to 64 digits, got ",
               beginning);
  return {Kind::sha256, std::move(beginning)};
}

std::string Checksum::found_in(const fs::path& path) const {
  return digest_of(path, kind == Kind::md5 ? EVP_md5() : EVP_sha256()).substr(0, digits.size());
}

std::string md5_of(const fs::path& path) { return digest_of(path, EVP_md5()); }

void download(const std::vector<std::string>& urls, const fs::path& destination, const Checksum& checksum,
              const DownloadOptions& options) {
  const auto is_there = [&] {
    std::error_code error;
    return fs::is_regular_file(destination, error) && checksum.fits(destination);
  };
  if (is_there()) return;
  if (destination.has_parent_path()) create_folder(destination.parent_path(), "to download to");
  auto part_path = destination;
  part_path += ".part";
  PartFile part(part_path, options);
  if (is_there()) return;  // another process has downloaded it in the meantime
  if (part.size() > 0 && checksum.fits(part.path())) {
    part.write_again();
    return part.become(destination);
  }

  const auto deadline = Clock::now() + options.total_timeout;
  std::string problems;
  for (std::size_t i = 0; i < urls.size(); ++i) {
    const auto left = std::max(deadline - Clock::now(), Clock::duration::zero());
    const auto share = Clock::now() + left / static_cast<int>(urls.size() - i);
    std::string problem;
    if (fetch_checked(urls[i], part, checksum, options, share, destination.filename().string(), problem)) {
      part.become(destination);
      return;
    }
    problems += "\n  " + urls[i] + ": " + problem;
  }
  std::error_code error;
  const std::string found = fs::is_regular_file(destination, error)
                                ? "\nThe existing file is a different one: its checksum is " +
                                      checksum.found_in(destination) + ", expected " + checksum.digits + "."
                                : "";
  throw DownloadError("cannot download " + destination.string() + ":" + problems + found +
                      "\nCheck the address and the network (http_proxy and https_proxy are respected) or copy "
                      "the file there by hand.");
}

}  // namespace tandem::data

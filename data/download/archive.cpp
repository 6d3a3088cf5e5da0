#include <tandem/core/base/deadline.h>
#include <tandem/data/download/archive.h>

#include <tandem/core/base/check.h>
#include <tandem/core/base/write_all.h>
#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/file_system.h>
#include <tandem/core/io/lock_file.h>
#include <tandem/core/io/temporary_file.h>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

// Returns the path of an entry, relative to the folder. Throws an Error if it would lead out of the folder.
fs::path checked_path(const char* name, const fs::path& archive) {
  TANDEM_CHECK(name != nullptr && *name != 0, archive.string(), " holds an entry without a name");
  const fs::path path = fs::path(name).lexically_normal();
  TANDEM_CHECK(path.is_relative() && *path.begin() != "..", archive.string(), " holds the path ", name,
               ", which leads out of the folder to unpack into; nothing was written there");
  return path;
}

std::string for_entries_of(const fs::path& archive) { return "to unpack " + archive.string() + " to"; }

fs::path mark_of(const fs::path& archive, const fs::path& folder) {
  return folder / (archive.filename().string() + ".unpacking");
}

[[noreturn]] void fail_to_write(const fs::path& archive, const fs::path& path, int error_number) {
  detail::fail("cannot unpack ", archive.string(), ": writing ", path.string(), " failed: ", reason_for(error_number),
               "; free space there or choose another folder. The archive is kept, so unpacking can continue");
}

// Flushes everything written to the file system of `folder` to disk, with one call for any number of files.
void synchronise(const fs::path& archive, const fs::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error_number = handle >= 0 && ::syncfs(handle) == 0 ? 0 : errno;
  if (handle >= 0) ::close(handle);
  if (error_number != 0) fail_to_write(archive, folder, error_number);
}

// A new temporary file. The destructor removes it, unless take_its_name() has renamed it to the target.
class NewFile {
 public:
  NewFile(const fs::path& archive, const fs::path& target)
      : archive_(archive), target_(target), file_(create_temporary(folder_of(target), temporary_)) {
    if (file_ < 0) fail_to_write(archive_, target_, errno);
  }
  ~NewFile() {
    ::close(file_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t size, std::int64_t offset) {
    if (write_all(file_, data, size, offset) < size) fail_to_write(archive_, target_, errno);
  }
  void set_size(std::int64_t size) {
    if (::ftruncate(file_, size) != 0) fail_to_write(archive_, target_, errno);
  }
  void take_its_name() {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_write(archive_, target_, errno);
    temporary_.clear();
  }

 private:
  const fs::path& archive_;
  const fs::path& target_;
  fs::path temporary_;
  int file_;
};

// Writes the data of the current entry to `target`, and subtracts its size from `bytes_left`.
void write_entry(::archive* reader, archive_entry* entry, const fs::path& archive, const fs::path& target,
                 std::int64_t& bytes_left) {
  std::int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
  const auto check_size = [&] {
    TANDEM_CHECK(size <= bytes_left, archive.string(),
                 " exceeds the limit for its unpacked size: ", target.filename().string(), " has at least ", size,
                 " bytes, and ", bytes_left, " are left. If you trust it, unpack it by hand");
  };
  check_size();
  std::error_code ignored;
  if (!fs::is_directory(target.parent_path(), ignored)) create_folder(target.parent_path(), for_entries_of(archive));
  NewFile file(archive, target);
  const void* data = nullptr;
  std::size_t count = 0;
  la_int64_t offset = 0;
  int code = ARCHIVE_OK;
  while ((code = archive_read_data_block(reader, &data, &count, &offset)) == ARCHIVE_OK) {
    TANDEM_CHECK(offset >= 0 && offset <= bytes_left, archive.string(), " is damaged: data at byte ", offset, " of ",
                 target.filename().string());
    size = std::max(size, offset + static_cast<std::int64_t>(count));
    check_size();
    file.write(data, count, offset);
  }
  // A warning about data is treated as an error, because it means that a checksum or a size is wrong.
  TANDEM_CHECK(code == ARCHIVE_EOF, archive.string(), " is damaged: ", archive_error_string(reader));
  file.set_size(size);  // a sparse file may end in a hole
  file.take_its_name();
  bytes_left -= size;
}

// While a Turn lives, no other process unpacks the same archive into the folder. A file system without locks can't
// guarantee this.
class Turn {
 public:
  Turn(const fs::path& archive, const fs::path& folder) : path_(folder / (archive.filename().string() + ".lock")) {
    constexpr std::chrono::minutes patience{30};
    const auto deadline = RunningTime::now() + patience;
    while (!take(archive)) {
      TANDEM_CHECK(RunningTime::now() < deadline, lock_holder(path_), " has been unpacking ", archive.string(), " for ",
                   patience.count(), " minutes; end that process, or remove ", path_.string(), ", and try again");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  ~Turn() {
    if (is_at(path_, file_)) ::unlink(path_.c_str());
    ::close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  fs::path path_;
  int file_ = -1;

  bool take(const fs::path& archive) {
    file_ = open_lock_file(path_);
    if (file_ < 0) fail_to_write(archive, path_, errno);
    const bool is_held = ::flock(file_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR);
    // The previous process removes the file at the end of its turn.
    if (!is_held && is_at(path_, file_)) return true;
    ::close(file_);
    return false;
  }
};

// While a NamesInUtf8 lives, libarchive returns all names on this thread in UTF-8. In a program's initial locale, it
// can't return non-ASCII names.
class NamesInUtf8 {
 public:
  NamesInUtf8() : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (utf8_ != nullptr) before_ = ::uselocale(utf8_);
  }
  ~NamesInUtf8() {
    if (utf8_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(utf8_);
  }
  NamesInUtf8(const NamesInUtf8&) = delete;
  NamesInUtf8& operator=(const NamesInUtf8&) = delete;

 private:
  locale_t utf8_;
  locale_t before_ = nullptr;
};

void write_entries(::archive* reader, const fs::path& archive, const fs::path& folder, const ArchiveLimits& limits) {
  archive_entry* entry = nullptr;
  std::int64_t entries = 0, bytes_left = limits.bytes;
  int code = ARCHIVE_OK;
  // A warning about an entry's header means that an attribute, such as the owner's name, could not be read. If the path
  // is missing, checked_path() throws an Error.
  while ((code = archive_read_next_header(reader, &entry)) == ARCHIVE_OK || code == ARCHIVE_WARN) {
    TANDEM_CHECK(++entries <= limits.entries, archive.string(), " holds more than ", limits.entries,
                 " files and folders, which is the limit. If you trust it, unpack it by hand");
    const fs::path path = checked_path(archive_entry_pathname(entry), archive);
    const bool is_link = archive_entry_hardlink(entry) != nullptr;
    if (archive_entry_filetype(entry) == AE_IFDIR) create_folder(folder / path, for_entries_of(archive));
    else if (archive_entry_filetype(entry) == AE_IFREG && !is_link)
      write_entry(reader, entry, archive, folder / path, bytes_left);
    else detail::fail(archive.string(), ": ", path.string(), " is neither a file nor a folder; links are not unpacked");
  }
  TANDEM_CHECK(code == ARCHIVE_EOF, archive.string(), " is damaged: ", archive_error_string(reader));
}

}  // namespace

bool is_half_unpacked(const fs::path& archive, const fs::path& folder) {
  std::error_code error;
  return fs::exists(mark_of(archive, folder), error);
}

void extract_archive(const fs::path& archive, const fs::path& folder, const std::function<bool()>& is_done,
                     const ArchiveLimits& limits) {
  TANDEM_CHECK(::access(archive.c_str(), R_OK) == 0, "cannot read the archive ", archive.string(), ": ",
               reason_for(errno));
  create_folder(folder, for_entries_of(archive));
  const Turn turn(archive, folder);
  if (is_done && is_done()) return;
  const NamesInUtf8 names;
  const std::unique_ptr<::archive, decltype(&archive_read_free)> reader(archive_read_new(), archive_read_free);
  // Enable nothing else: some of libarchive's filters start other programs, and some of its formats read files of this
  // host. Without zlib, libarchive would start gzip, and reports that with a warning.
  TANDEM_CHECK(archive_read_support_filter_gzip(reader.get()) == ARCHIVE_OK &&
                   archive_read_support_format_tar(reader.get()) == ARCHIVE_OK &&
                   archive_read_support_format_zip(reader.get()) == ARCHIVE_OK,
               "this libarchive cannot unpack: ", archive_error_string(reader.get()), "; install one with zlib");
  constexpr std::size_t block = 1 << 16;
  TANDEM_CHECK(archive_read_open_filename(reader.get(), archive.c_str(), block) == ARCHIVE_OK,
               "cannot read the archive ", archive.string(), ": ", archive_error_string(reader.get()),
               "; it must be a tar, a tar.gz or a zip");
  // The mark is on disk before the first file is created, and all files are on disk before the mark is removed.
  const fs::path mark = mark_of(archive, folder);
  AtomicFile(mark).commit();
  write_entries(reader.get(), archive, folder, limits);
  synchronise(archive, folder);
  if (::unlink(mark.c_str()) != 0 && errno != ENOENT) fail_to_write(archive, mark, errno);
}

}  // namespace tandem::data

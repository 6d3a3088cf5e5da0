#include <tandem/data/download/archive.h>

#include <tandem/core/base/check.h>
#include <tandem/core/io/file_system.h>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

// The path of an entry, relative to the folder. Error when it would lead out of the folder.
fs::path checked_path(const char* name, const fs::path& archive) {
  TANDEM_CHECK(name != nullptr && *name != 0, archive.string(), " holds an entry without a name");
  const fs::path path = fs::path(name).lexically_normal();
  TANDEM_CHECK(path.is_relative() && *path.begin() != "..", archive.string(), " holds the path ", name,
               ", which leads out of the folder to unpack into; nothing was written there");
  return path;
}

std::string for_entries_of(const fs::path& archive) { return "to unpack " + archive.string() + " to"; }

// Writes the data of the current entry to the file `part`.
void write_data(::archive* reader, const fs::path& archive, const fs::path& part) {
  const auto fail = [&](int error_number) {
    detail::fail("cannot unpack ", archive.string(), ": writing ", part.string(), " failed: ", reason_for(error_number),
                 "; free space there or choose another folder. The archive stays, to go on from");
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "wb"), std::fclose);
  if (file == nullptr) fail(errno);
  const void* data = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  int code = ARCHIVE_OK;
  while ((code = archive_read_data_block(reader, &data, &size, &offset)) == ARCHIVE_OK)
    if (fseeko(file.get(), offset, SEEK_SET) != 0 || std::fwrite(data, 1, size, file.get()) != size) fail(errno);
  if (std::fclose(file.release()) != 0) fail(errno);
  TANDEM_CHECK(code == ARCHIVE_EOF, archive.string(), " is damaged: ", archive_error_string(reader));
}

void write_entry(::archive* reader, const fs::path& archive, const fs::path& target) {
  create_folder(target.parent_path(), for_entries_of(archive));
  const fs::path part = target.string() + ".part";
  try {
    write_data(reader, archive, part);
    fs::rename(part, target);
  } catch (...) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw;
  }
}

// While a Turn lives, no other process unpacks the same archive. On a file system without locks nothing prevents it.
class Turn {
 public:
  explicit Turn(const fs::path& archive) : file_(::open(archive.c_str(), O_RDONLY | O_CLOEXEC)) {
    TANDEM_CHECK(file_ >= 0, "cannot read the archive ", archive.string(), ": ", reason_for(errno));
    constexpr std::chrono::minutes patience{30};
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (::flock(file_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ::close(file_);
        detail::fail("another process has been unpacking ", archive.string(), " for ", patience.count(),
                     " minutes; end that process and try again");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  ~Turn() { ::close(file_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_;
};

}  // namespace

void extract_archive(const fs::path& archive, const fs::path& folder, const std::function<bool()>& is_done) {
  const Turn turn(archive);
  if (is_done && is_done()) return;
  const std::unique_ptr<::archive, decltype(&archive_read_free)> reader(archive_read_new(), archive_read_free);
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_all(reader.get());
  constexpr std::size_t block = 1 << 16;
  TANDEM_CHECK(archive_read_open_filename(reader.get(), archive.c_str(), block) == ARCHIVE_OK,
               "cannot read the archive ", archive.string(), ": ", archive_error_string(reader.get()));
  create_folder(folder, for_entries_of(archive));
  archive_entry* entry = nullptr;
  int code = ARCHIVE_OK;
  while ((code = archive_read_next_header(reader.get(), &entry)) == ARCHIVE_OK) {
    const fs::path path = checked_path(archive_entry_pathname(entry), archive);
    const bool is_link = archive_entry_hardlink(entry) != nullptr;
    if (archive_entry_filetype(entry) == AE_IFDIR) create_folder(folder / path, for_entries_of(archive));
    else if (archive_entry_filetype(entry) == AE_IFREG && !is_link) write_entry(reader.get(), archive, folder / path);
    else detail::fail(archive.string(), ": ", path.string(), " is neither a file nor a folder; links are not unpacked");
  }
  TANDEM_CHECK(code == ARCHIVE_EOF, archive.string(), " is damaged: ", archive_error_string(reader.get()));
}

}  // namespace tandem::data

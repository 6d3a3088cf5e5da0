#include <tandem/data/archive.h>

#include <tandem/core/check.h>

#include <archive.h>
#include <archive_entry.h>

#include <fstream>
#include <memory>
#include <string>
#include <system_error>

namespace tandem::data {

namespace {

namespace fs = std::filesystem;

// The path of an entry inside of the folder; Error where it would be outside.
fs::path checked_path(const char* name, const fs::path& archive) {
  TANDEM_CHECK(name != nullptr && *name != 0, archive.string(), " holds an entry without a name");
  const fs::path path = fs::path(name).lexically_normal();
  TANDEM_CHECK(path.is_relative() && *path.begin() != "..", archive.string(), " holds the path ", name,
               ", which leads out of the folder to unpack into; nothing was written there");
  return path;
}

void write_entry(::archive* reader, const fs::path& archive, const fs::path& target) {
  fs::create_directories(target.parent_path());
  const fs::path part = target.string() + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  const void* data = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  int code = ARCHIVE_OK;
  while (file && (code = archive_read_data_block(reader, &data, &size, &offset)) == ARCHIVE_OK) {
    file.seekp(offset);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  file.close();
  TANDEM_CHECK(file, "could not write ", part.string(), "; is the disk full?");
  TANDEM_CHECK(code == ARCHIVE_EOF, archive.string(), " is damaged: ", archive_error_string(reader));
  fs::rename(part, target);
}

}  // namespace

void extract_archive(const fs::path& archive, const fs::path& folder) {
  const std::unique_ptr<::archive, decltype(&archive_read_free)> reader(archive_read_new(),
                                                                        archive_read_free);
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_all(reader.get());
  constexpr std::size_t block = 1 << 16;
  TANDEM_CHECK(archive_read_open_filename(reader.get(), archive.c_str(), block) == ARCHIVE_OK,
               "cannot read the archive ", archive.string(), ": ", archive_error_string(reader.get()));
  fs::create_directories(folder);
  archive_entry* entry = nullptr;
  int code = ARCHIVE_OK;
  while ((code = archive_read_next_header(reader.get(), &entry)) == ARCHIVE_OK) {
    const fs::path path = checked_path(archive_entry_pathname(entry), archive);
    const bool is_link = archive_entry_hardlink(entry) != nullptr;
    if (archive_entry_filetype(entry) == AE_IFDIR) fs::create_directories(folder / path);
    else if (archive_entry_filetype(entry) == AE_IFREG && !is_link)
      write_entry(reader.get(), archive, folder / path);
    else
      detail::fail(archive.string(), ": ", path.string(),
                   " is neither a file nor a folder; links are not unpacked");
  }
  TANDEM_CHECK(code == ARCHIVE_EOF, archive.string(), " is damaged: ", archive_error_string(reader.get()));
}

}  // namespace tandem::data

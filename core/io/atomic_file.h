// AtomicFile: a file that appears complete or not at all.
#pragma once

#include <tandem/core/base/temporarily.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tandem {

// Writes to a temporary file in the folder of `path`. commit() makes it durable and puts it in the place of `path` in
// one step, so that a crash, a full disk or a lost power supply leaves either what was there before or the new file,
// whole. Without commit() the destructor removes the temporary. Errors name the file, the reason and what to do; what
// was at `path` is untouched by all of them except a failure to synchronise the folder after the rename. Not for
// several threads at once; any number of writers may write the same path, the last commit() wins.
class AtomicFile : NoCopy {
 public:
  // Opens the temporary file. Follows `path` where it is a symbolic link, so that the link stays one. Error where that
  // link is another user's in a folder such as /tmp (may_follow_link), and where `path` is a device, a pipe or a
  // socket, which no file should replace.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(const void* data, std::size_t bytes) { write({static_cast<const std::byte*>(data), bytes}); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool is_named_ = false;  // the temporary; until commit() mostly not
  int file_ = -1;
  std::uint64_t written_ = 0;

  void close_and_remove() noexcept;
  [[noreturn]] void fail(const char* step, int error_number);
};

// Puts the file `from` in the place of `to` (same folder) in one step, and makes that durable.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tandem

// AtomicFile: a file that appears complete or not at all.
#pragma once

#include <tandem/core/base/temporarily.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tandem {

// Writes to a temporary file in the folder of `path`. commit() makes it durable and moves it to `path` in one step.
// After a crash, a full disk or a power failure, `path` therefore refers to either the complete old file or the
// complete new one. Without commit(), the destructor removes the temporary file. Errors name the file, the reason and
// what to do. After an Error the old file at `path` is unchanged, unless synchronising the folder after the rename
// failed. Only one thread at a time may use an AtomicFile. Any number of writers may write the same path; the last
// commit() wins.
class AtomicFile : NoCopy {
 public:
  // Opens the temporary file. If `path` is a symbolic link, follows it, so the link stays a link. Throws an Error if a
  // part of the path belongs to another user and is in a folder such as /tmp (check_entries), or if `path` is a device,
  // a pipe or a socket, which a file must not replace.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(const void* data, std::size_t bytes) { write({static_cast<const std::byte*>(data), bytes}); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool is_named_ = false;  // whether the temporary file has a name; usually false until commit()
  int file_ = -1;
  std::uint64_t written_ = 0;

  void close_and_remove() noexcept;
  [[noreturn]] void fail(const char* step, int error_number);
};

// Replaces `to` by the file `from` (same folder) in one step, and makes that durable.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tandem

// The interface of support/faulty_files.cpp, for a test program that is linked with it.
#pragma once

#include <cstdint>

namespace tandem::testing {

// The system calls that change something below the watched folder. Paths are relative to that folder. The journal holds
// a JournalEntry for each call, followed by `path`, `target` and the bytes that were written.
enum class FileCall : std::uint32_t {
  create,
  open,
  write,
  truncate,
  sync,
  sync_all,
  link,
  rename,
  remove,
  mkdir,
  close
};

struct JournalEntry {
  FileCall call;
  std::int32_t error;    // 0, or the error number that the caller got
  std::uint64_t inode;   // of the file or the folder
  std::int64_t offset;   // of a write; for truncate, the new size
  std::uint32_t path;    // length in bytes
  std::uint32_t target;  // length in bytes; for rename
  std::uint64_t bytes;   // number of bytes written
};

}  // namespace tandem::testing

extern "C" {
// Watches the existing folder `folder` from now on, or no folder if it is nullptr. Calls are counted from 1, and
// written to `journal` unless it is nullptr.
void faulty_files_watch(const char* folder, const char* journal);
// Makes call number `number` fail with the error number `error`. If `error` is 0, the call writes only half of its
// bytes. If `lasts`, a write with that number writes half, and all later calls fail. If `number` is 0, no call fails.
void faulty_files_fail(long number, int error, bool lasts);
// Returns the number of calls so far.
long faulty_files_calls();
// While `holds` is true, threads that write to or synchronise a watched file or folder wait, as on a hung disk.
void faulty_files_hold(bool holds);
// Returns the number of threads that wait.
long faulty_files_held();
}

// What tests ask of support/faulty_files.cpp, where a test program has it in itself.
#pragma once

#include <cstdint>

namespace tandem::testing {

// A call of the system that changes what is below the watched folder. Paths are relative to that folder. The journal
// holds a JournalEntry for each call, followed by the bytes of `path`, of `target` and of what was written.
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
  std::int64_t offset;   // of a write; the new size for truncate
  std::uint32_t path;    // its length
  std::uint32_t target;  // its length; for rename
  std::uint64_t bytes;   // how many were written
};

}  // namespace tandem::testing

extern "C" {
// Watches `folder`, which is there, from now on; nullptr: none. The calls are written to `journal` unless it is
// nullptr, and are counted from 1.
void faulty_files_watch(const char* folder, const char* journal);
// Lets call number `number` fail with the error number `error`; 0 stands for a write of half of the bytes. With `lasts`
// a write of that number writes half, and all later calls fail. Number 0: none.
void faulty_files_fail(long number, int error, bool lasts);
// How many calls there have been.
long faulty_files_calls();
}

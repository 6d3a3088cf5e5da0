// SharedSegment: memory of one rank that all ranks of the same host can read and write.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tandem::distributed {

// The memory is a memfd. It has no name, needs no /dev/shm, and is freed with the last process that maps it. Pages use
// memory only once they are touched. Any thread may call the methods.
class SharedSegment {
 public:
  // Makes a new segment of this process. `bytes` is its fixed capacity.
  explicit SharedSegment(std::size_t bytes);
  // Maps the segment of another process, which passed it as a file. Throws an Error that names `owner` if the segment
  // has fewer than `least` bytes, or if its size could still change. Touching memory beyond the end of a file would
  // kill this process.
  SharedSegment(FileDescriptor file, std::size_t least, std::string owner);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  char* base() const { return base_; }
  // Returns the address of `bytes` bytes at `offset`, which the owner of the segment published. Throws an Error that
  // names the owner if the bytes lie outside of the segment, or if `offset` is not a multiple of `alignment`.
  char* at(std::uint64_t offset, std::size_t bytes, std::size_t alignment = 1) const {
    if (offset > bytes_ || bytes > bytes_ - offset || offset % alignment != 0) fail_outside(offset, bytes);
    return base_ + offset;
  }
  const FileDescriptor& file() const { return file_; }

  // Allocates a block and returns its offset, a multiple of 64. Throws an Error if there is no room. Only the process
  // that made the segment may allocate in it.
  std::size_t allocate(std::size_t bytes);
  void free(std::size_t offset);
  // Returns whether [data, data + bytes) lies in the segment.
  bool contains(const void* data, std::size_t bytes) const;

 private:
  void map();
  [[noreturn]] void fail_outside(std::uint64_t offset, std::size_t bytes) const;

  const std::string owner_;  // "rank 1 (host, pid 4711)", for errors
  FileDescriptor file_;
  std::size_t bytes_ = 0;
  char* base_ = nullptr;

  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // guarded by mutex_; offset -> bytes, no two adjacent
  std::map<std::size_t, std::size_t> used_;  // guarded by mutex_; offset -> bytes
};

}  // namespace tandem::distributed

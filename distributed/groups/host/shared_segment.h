// SharedSegment: memory of one rank that all ranks of its host can read and write.
#pragma once

#include <tandem/distributed/system/socket.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace tandem::distributed {

// A memfd: it has no name, needs no /dev/shm, and is gone with the last process that maps it. Pages take memory
// once they are touched. Any thread.
class SharedSegment {
 public:
  // A new one. `bytes` is the most it can ever hold.
  explicit SharedSegment(std::size_t bytes);
  // That of another process.
  explicit SharedSegment(FileDescriptor file);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  char* base() const { return base_; }
  const FileDescriptor& file() const { return file_; }

  // A block at a multiple of 64 bytes, from its owner's process; as an offset. Error when there is no room.
  std::size_t allocate(std::size_t bytes);
  void free(std::size_t offset);
  // Whether [data, data + bytes) lies in it.
  bool contains(const void* data, std::size_t bytes) const;

 private:
  void map();

  FileDescriptor file_;
  std::size_t bytes_ = 0;
  char* base_ = nullptr;

  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, no two adjacent
  std::map<std::size_t, std::size_t> used_;
};

}  // namespace tandem::distributed

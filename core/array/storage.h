// Storage: a block of memory on a device, shared by the Arrays that view it.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/core/device/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace tandem {

// Owns its bytes, which go back to the device's caching allocator, or keeps alive whatever owns them. It counts
// in-place writes, so that autograd can tell that a value that it saved has changed. Keeping several threads from
// writing at once is the caller's task, as with any memory.
class Storage : NoCopy {
 public:
  Storage(std::size_t bytes, Device device);
  // Memory that something else owns. `release` keeps the owner alive; it runs when the last Array of this storage is
  // gone.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release);
  ~Storage();

  void* data() const {
    if (revoked_) [[unlikely]]
      fail_revoked();
    return data_;
  }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // The number of in-place writes so far, and the name of the operation that made the last one.
  std::uint64_t version() const { return version_; }
  const char* last_writer() const { return last_writer_; }
  void written_by(const char* operation) {
    ++version_;
    last_writer_ = operation;
  }

  // Gives the memory of `other` to this storage, and that of this one to `other`. All Arrays of either show the other
  // memory from then on. Both are on one device.
  void swap_memory(Storage& other);
  // From now on data() is an Error with this text, which lives as long as the program.
  void revoke(const char* why) { revoked_ = why; }

 private:
  [[noreturn]] void fail_revoked() const;

  void* data_;
  std::size_t bytes_;
  Device device_;
  std::function<void()> release_;
  std::uint64_t version_ = 0;
  const char* last_writer_ = "";
  const char* revoked_ = nullptr;
};

// A part of `parent` with a version count of its own, for one parameter in an optimizer's arena or one gradient in a
// bucket.
std::shared_ptr<Storage> storage_slice(std::shared_ptr<Storage> parent, std::size_t byte_offset, std::size_t bytes);

}  // namespace tandem

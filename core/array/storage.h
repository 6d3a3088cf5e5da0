// Storage: a block of memory on a device, shared by the Arrays that view it.
#pragma once

#include <tandem/core/base/temporarily.h>
#include <tandem/core/device/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace tandem {

// Owns its bytes, which return to the device's caching allocator, or keeps their owner alive. It counts in-place
// writes, so autograd can detect that a saved value has changed. As with any memory, callers must prevent several
// threads from writing at once.
class Storage : NoCopy {
 public:
  Storage(std::size_t bytes, Device device);
  // Wraps memory that something else owns. `release` keeps the owner alive. It runs when the last Array of this storage
  // is gone.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release);
  ~Storage();

  void* data() const {
    if (revoked_) [[unlikely]]
      fail_revoked();
    return data_;
  }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Return the number of in-place writes so far, and the name of the operation that made the last write.
  std::uint64_t version() const { return version_; }
  const char* last_writer() const { return last_writer_; }
  void written_by(const char* operation) {
    ++version_;
    last_writer_ = operation;
  }

  // Swaps the memory of this storage and `other`. From then on, all Arrays of one storage refer to the memory of the
  // other. Both storages are on the same device.
  void swap_memory(Storage& other);
  // From now on, data() throws an Error with this text, which must live as long as the program.
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

// Returns a part of `parent` with its own version count, for one parameter in an optimizer's arena or one gradient in a
// bucket.
std::shared_ptr<Storage> storage_slice(std::shared_ptr<Storage> parent, std::size_t byte_offset, std::size_t bytes);

}  // namespace tandem

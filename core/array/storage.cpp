#include <tandem/core/array/device_memory.h>
#include <tandem/core/array/storage.h>
#include <tandem/core/base/check.h>

#include <utility>

namespace tandem {

Storage::Storage(std::size_t bytes, Device device)
    : data_(device_memory(device).allocator().allocate(bytes)), bytes_(bytes), device_(device) {}

Storage::Storage(void* data, std::size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

// If a GPU has failed, release_() or deallocate() throws, and its memory is lost. A destructor must not throw. The next
// use of the GPU throws the Error.
Storage::~Storage() {
  try {
    if (release_) release_();
    else device_memory(device_).allocator().deallocate(data_, bytes_);
  } catch (const std::exception&) {
  }
}

void Storage::swap_memory(Storage& other) {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
}

void Storage::fail_revoked() const { detail::fail(revoked_); }

std::shared_ptr<Storage> storage_slice(std::shared_ptr<Storage> parent, std::size_t byte_offset, std::size_t bytes) {
  TANDEM_CHECK(byte_offset <= parent->bytes() && bytes <= parent->bytes() - byte_offset, "storage_slice: ", bytes,
               " bytes at offset ", byte_offset, " lie outside a storage of ", parent->bytes(), " bytes");
  char* data = static_cast<char*>(parent->data()) + byte_offset;
  const Device device = parent->device();
  return std::make_shared<Storage>(data, bytes, device, [parent = std::move(parent)] {});
}

}  // namespace tandem

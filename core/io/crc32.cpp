#include <tandem/core/io/crc32.h>

#include <zlib.h>

namespace tandem {

std::uint32_t crc32_of(const void* bytes, std::size_t size, std::uint32_t before) {
  // For a null pointer, zlib would start a new checksum.
  if (size == 0) return before;
  return static_cast<std::uint32_t>(::crc32_z(before, static_cast<const Bytef*>(bytes), size));
}

}  // namespace tandem

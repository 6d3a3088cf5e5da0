// CRC-32, the checksum of zip files and of our safetensors files. It is zlib's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// `before` is the CRC-32 of the preceding bytes.
std::uint32_t crc32_of(const void* bytes, std::size_t size, std::uint32_t before = 0);

}  // namespace tandem

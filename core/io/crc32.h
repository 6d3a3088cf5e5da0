// CRC-32, the checksum of zip files and of our safetensors files: zlib's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// `before` is the CRC-32 of the bytes that come before these.
std::uint32_t crc32_of(const void* bytes, std::size_t size, std::uint32_t before = 0);

}  // namespace tandem

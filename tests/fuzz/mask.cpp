// The chunks of a PNG file have checksums that random input would never match, so the target corrects them first.
#include <tandem/data/images/image_png.h>

#include <zlib.h>

#include <string>

#include "fuzz.h"

using namespace tandem;

namespace {

// A chunk has four bytes of length, four bytes of type, the data, and four bytes of checksum.
std::string with_right_checksums(std::string_view bytes) {
  std::string png(bytes);
  const auto* const unsigned_bytes = reinterpret_cast<const unsigned char*>(png.data());
  for (std::size_t at = 8; at + 12 <= png.size();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | unsigned_bytes[at + i];
    if (size > png.size() - at - 12) break;
    const auto checksum = ::crc32(0, unsigned_bytes + at + 4, static_cast<uInt>(size + 4));
    for (std::size_t i = 0; i < 4; ++i) png[at + 8 + size + i] = static_cast<char>(checksum >> (24 - 8 * i));
    at += size + 12;
  }
  return png;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(with_right_checksums(fuzz::text_of(data, size)));
  fuzz::expect_at_most_an_error([&] {
    const data::MaskFile mask(file.path());
    fuzz::expect_at_most_an_error([&] { mask.read(); });
    mask.read((mask.height() + 1) / 2);
  });
  return 0;
}

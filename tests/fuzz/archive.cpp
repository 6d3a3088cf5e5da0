// Fuzzes archives, unpacked as after a download. The header of a tar entry has a checksum that random input would never
// match, so the target corrects it first.
#include <tandem/data/download/archive.h>

#include <cstdio>
#include <cstring>

#include "fuzz.h"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

// A tar file consists of blocks of 512 bytes. An entry is a header, which contains the size as octal digits, and then
// the data.
std::string with_right_checksums(std::string tar) {
  constexpr std::size_t block = 512, size_at = 124, size_digits = 11, sum_at = 148, sum_digits = 8;
  for (std::size_t at = 0; at + block <= tar.size();) {
    char* const head = &tar[at];
    if (*head == '\0') break;
    std::memset(head + sum_at, ' ', sum_digits);
    unsigned sum = 0;
    for (std::size_t i = 0; i < block; ++i) sum += static_cast<unsigned char>(head[i]);
    std::snprintf(head + sum_at, sum_digits, "%06o", sum);
    const auto size = std::strtoull(std::string(head + size_at, size_digits).c_str(), nullptr, 8);
    if (size > tar.size()) break;
    at += block + (size + block - 1) / block * block;
  }
  return tar;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  const bool is_tar = !bytes.starts_with("PK") && !bytes.starts_with("\x1f\x8b");
  const fuzz::MemoryFile file(is_tar ? with_right_checksums(std::string(bytes)) : std::string(bytes));
  const fuzz::TemporaryPath base;
  fs::create_directory(base.path());
  const fs::path folder = base.path() / "a" / "b";
  const data::ArchiveLimits limits{.entries = 64, .bytes = 1 << 20};
  const bool is_whole = fuzz::expect_at_most_an_error([&] { data::extract_archive(file.path(), folder, {}, limits); });
  if (is_whole && data::is_half_unpacked(file.path(), folder)) std::abort();

  // For any input, the folder must contain only files and folders, within the limits.
  std::int64_t written = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(base.path(), error)) {
    if (entry.is_symlink() || !(entry.is_regular_file() || entry.is_directory())) std::abort();
    if (entry.is_regular_file()) written += static_cast<std::int64_t>(entry.file_size());
    const auto name = entry.path().lexically_relative(base.path()).string();
    if (name != "a" && name != "a/b" && !name.starts_with("a/b/")) std::abort();
  }
  if (error || written > limits.bytes) std::abort();
  return 0;
}

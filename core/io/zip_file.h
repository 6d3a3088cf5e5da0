// Zip archives whose entries are stored uncompressed, as PyTorch writes them. The format is that of PKWARE's
// APPNOTE.TXT, sections 4.3 to 4.5, with zip64.
#pragma once

#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/input_file.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Reads the entries of the central directory and checks them against the file: every entry lies inside the file, no
// entry overlaps another or the directory, and no name appears twice. Reading a compressed or encrypted entry throws an
// Error. The InputFile must outlive the reader.
class ZipReader {
 public:
  struct Entry {
    std::string name;
    std::uint64_t begin = 0;  // the offset of its bytes in the file
    std::uint64_t size = 0;   // of the contents; a compressed entry has a different size in the file
    std::uint32_t crc = 0;
    std::uint16_t flags = 0, method = 0;
  };

  explicit ZipReader(const InputFile& file);

  const std::vector<Entry>& entries() const { return entries_; }  // sorted by name
  const Entry* find(std::string_view name) const;                 // returns null if there is no such entry
  // Reads all bytes of the entry. Throws an Error if their CRC-32 differs from the directory's.
  void read(const Entry& entry, void* destination) const;
  std::string read(const Entry& entry) const;

 private:
  struct Directory;

  const InputFile& file_;
  std::vector<Entry> entries_;

  Directory find_directory() const;
  void read_directory(const Directory& directory);
  void check_readable(const Entry& entry) const;
  std::uint64_t data_begin(const Entry& entry, std::uint64_t header, std::uint64_t end) const;
};

// Writes entries one after the other; finish() writes the directory. The same entries always produce the same bytes.
// The file must outlive the writer, and no other code may write to the file in between.
class ZipWriter {
 public:
  // The contents of an entry begin at multiples of this number of bytes, as in PyTorch's archives.
  static constexpr std::uint64_t alignment = 64;

  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  void add(const std::string& name, std::span<const std::byte> bytes);
  void finish();

 private:
  AtomicFile& file_;
  std::uint64_t position_ = 0;
  std::uint64_t entries_ = 0;
  std::string directory_;

  void write(const std::string& bytes);
};

}  // namespace tandem

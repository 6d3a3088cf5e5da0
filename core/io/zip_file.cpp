#include <tandem/core/io/zip_file.h>

#include <tandem/core/io/crc32.h>

#define ZLIB_CONST  // makes zlib take its input as const
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tandem {
namespace {

constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::size_t local_bytes = 30, central_bytes = 46, end_bytes = 22, end64_bytes = 56, locator64_bytes = 20;

constexpr std::uint16_t zip64_field = 1;
constexpr std::uint16_t padding_field = 0x4246;  // the id "FB", which PyTorch also uses
constexpr std::uint16_t encrypted_flag = 1, names_are_utf8_flag = 1 << 11;
constexpr std::uint64_t in_zip64 = 0xffffffff;  // in a 32-bit field, it means that the zip64 field has the number
constexpr std::uint64_t largest_directory = std::uint64_t{256} << 20;
const char* const advice = "; it is truncated or damaged: download or copy it again";

template <class T>
T number(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

std::uint16_t u16(std::string_view bytes, std::size_t at) { return number<std::uint16_t>(bytes, at); }
std::uint32_t u32(std::string_view bytes, std::size_t at) { return number<std::uint32_t>(bytes, at); }
std::uint64_t u64(std::string_view bytes, std::size_t at) { return number<std::uint64_t>(bytes, at); }

template <class... Values>
std::string little_endian(Values... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  return bytes;
}

// Returns the content of the extra field `id` in a list of fields, or nullopt if the list does not contain the field or
// is broken before it.
std::optional<std::string_view> find_field(std::string_view extra, std::uint16_t id) {
  while (extra.size() >= 4) {
    const std::size_t size = u16(extra, 2);
    if (size > extra.size() - 4) return std::nullopt;
    if (u16(extra, 0) == id) return extra.substr(4, size);
    extra.remove_prefix(4 + size);
  }
  return std::nullopt;
}

}  // namespace

struct ZipReader::Directory {
  std::uint64_t begin = 0, size = 0, entries = 0;
};

ZipReader::ZipReader(const InputFile& file) : file_(file) { read_directory(find_directory()); }

ZipReader::Directory ZipReader::find_directory() const {
  file_.check(file_.size() >= end_bytes, "has ", file_.size(), " bytes, too few for a zip archive", advice);
  // The end record is the last record in the file. Only a comment of up to 64 KiB may follow it.
  const std::uint64_t tail = std::min<std::uint64_t>(file_.size(), end_bytes + 0xffff);
  const std::uint64_t tail_begin = file_.size() - tail;
  const std::string bytes = file_.read(tail, tail_begin);
  std::size_t at = bytes.size() - end_bytes;
  while (u32(bytes, at) != end_signature || at + end_bytes + u16(bytes, at + 20) != bytes.size()) {
    file_.check(at > 0, "is a zip archive without its directory", advice);
    --at;
  }
  Directory found{u32(bytes, at + 16), u32(bytes, at + 12), u16(bytes, at + 10)};
  std::uint64_t end = tail_begin + at;
  bool is_whole = u16(bytes, at + 4) == 0 && u16(bytes, at + 6) == 0 && u16(bytes, at + 8) == found.entries;

  if (at >= locator64_bytes && u32(bytes, at - locator64_bytes) == locator64_signature) {
    const std::uint64_t record = u64(bytes, at - locator64_bytes + 8);
    end -= locator64_bytes;
    file_.check(end >= end64_bytes && record <= end - end64_bytes, "the zip64 end record at byte ", record,
                " lies outside the file", advice);
    const std::string end64 = file_.read(end64_bytes, record);
    file_.check(u32(end64, 0) == end64_signature, "there is no zip64 end record at byte ", record, advice);
    found = {u64(end64, 48), u64(end64, 40), u64(end64, 32)};
    is_whole = u32(end64, 16) == 0 && u32(end64, 20) == 0 && u64(end64, 24) == found.entries;
    end = record;
  }
  file_.check(is_whole, "is one part of a multi-file zip archive, which is not supported");
  file_.check(found.begin <= end && found.size <= end - found.begin, "the zip directory (", found.size,
              " bytes at byte ", found.begin, ") lies outside the file", advice);
  file_.check(found.size <= largest_directory && found.entries <= found.size / central_bytes,
              "the zip directory can't have ", found.entries, " entries in ", found.size, " bytes", advice);
  return found;
}

void ZipReader::read_directory(const Directory& directory) {
  const std::string all = file_.read(directory.size, directory.begin);
  std::string_view rest = all;
  struct Range {
    std::uint64_t begin, end;
    std::string_view name;
  };
  std::vector<Range> ranges;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    file_.check(rest.size() >= central_bytes && u32(rest, 0) == central_signature, "entry ", i,
                " of the zip directory is broken", advice);
    const std::size_t name_size = u16(rest, 28), extra_size = u16(rest, 30), comment_size = u16(rest, 32);
    const std::size_t entry_size = central_bytes + name_size + extra_size + comment_size;
    file_.check(entry_size <= rest.size(), "entry ", i, " of the zip directory is broken", advice);
    Entry entry;
    const auto name = rest.substr(central_bytes, name_size);
    entry.name = name;
    entry.flags = u16(rest, 8);
    entry.method = u16(rest, 10);
    entry.crc = u32(rest, 16);
    std::uint64_t compressed = u32(rest, 20), header = u32(rest, 42);
    entry.size = u32(rest, 24);
    auto wide = find_field(rest.substr(central_bytes + name_size, extra_size), zip64_field);
    // The zip64 field contains, in this order, only the numbers whose 32-bit fields refer to it.
    for (std::uint64_t* value : {&entry.size, &compressed, &header}) {
      if (*value != in_zip64 || !wide) continue;
      file_.check(wide->size() >= 8, "entry \"", name, "\": its zip64 field is too short", advice);
      *value = u64(*wide, 0);
      wide->remove_prefix(8);
    }
    file_.check(compressed == entry.size || entry.method != 0, "entry \"", name,
                "\" is uncompressed, but has two sizes, ", compressed, " and ", entry.size, advice);
    entry.begin = data_begin(entry, header, directory.begin);
    file_.check(compressed <= directory.begin - entry.begin, "entry \"", name, "\" announces ", compressed,
                " bytes at byte ", entry.begin, ", but the file has only ", directory.begin - entry.begin, " left",
                advice);
    ranges.push_back({header, entry.begin + compressed, name});
    entries_.push_back(std::move(entry));
    rest.remove_prefix(entry_size);
  }
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    file_.check(ranges[i].begin >= ranges[i - 1].end, "the entries \"", ranges[i - 1].name, "\" and \"", ranges[i].name,
                "\" overlap: it is damaged or malicious");
  }
  std::sort(entries_.begin(), entries_.end(), [](auto& a, auto& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    file_.check(entries_[i].name != entries_[i - 1].name, "two entries are named \"", entries_[i].name, "\"");
  }
}

// Returns the offset of an entry's bytes. They follow the entry's own header, which repeats its name.
std::uint64_t ZipReader::data_begin(const Entry& entry, std::uint64_t header, std::uint64_t end) const {
  const std::string& name = entry.name;
  file_.check(header <= end && end - header >= local_bytes + name.size(), "entry \"", name, "\" begins at byte ",
              header, ", outside the file", advice);
  const std::string bytes = file_.read(local_bytes + name.size(), header);
  file_.check(u32(bytes, 0) == local_signature && u16(bytes, 8) == entry.method && u16(bytes, 26) == name.size() &&
                  bytes.compare(local_bytes, name.size(), name) == 0,
              "entry \"", name, "\" has a header at byte ", header, " that contradicts the directory", advice);
  const std::uint64_t begin = header + bytes.size() + u16(bytes, 28);
  file_.check(begin <= end, "entry \"", name, "\" begins at byte ", begin, ", outside the file", advice);
  return begin;
}

const ZipReader::Entry* ZipReader::find(std::string_view name) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const Entry& entry, std::string_view n) { return entry.name < n; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

void ZipReader::check_readable(const Entry& entry) const {
  file_.check(!(entry.flags & encrypted_flag), "entry \"", entry.name, "\" is encrypted, which is not supported");
  file_.check(entry.method == 0, "entry \"", entry.name, "\" is compressed (method ", entry.method,
              "), but only uncompressed entries are supported: save it with torch.save");
}

void ZipReader::read(const Entry& entry, void* destination) const {
  check_readable(entry);
  file_.read(destination, entry.size, entry.begin);
  const std::uint32_t crc = crc32_of(destination, entry.size);
  file_.check(crc == entry.crc, "entry \"", entry.name, "\" has the CRC-32 ", crc, ", but its directory says ",
              entry.crc, ": it is damaged: download or copy it again");
}

std::string ZipReader::read(const Entry& entry) const {
  check_readable(entry);
  std::string bytes(entry.size, '\0');
  read(entry, bytes.data());
  return bytes;
}

void ZipWriter::write(const std::string& bytes) {
  file_.write(bytes.data(), bytes.size());
  position_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  TANDEM_CHECK(name.size() <= 0xffff, "zip: an entry's name has ", name.size(),
               " bytes, but at most 65535 are allowed");
  const std::uint64_t header = position_, size = bytes.size();
  const std::uint32_t crc = crc32_of(bytes.data(), bytes.size());
  const bool is_wide = size >= in_zip64;
  const auto narrow = [](std::uint64_t value) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, in_zip64));
  };
  // The fields are: version needed (4.5 for zip64), flags, method (stored), time and date (none), CRC, sizes, length of
  // the name.
  const auto common = [&](std::uint16_t version) {
    return little_endian(version, names_are_utf8_flag, std::uint16_t{0}, std::uint32_t{0}, crc, narrow(size),
                         narrow(size), static_cast<std::uint16_t>(name.size()));
  };

  std::string wide_sizes;
  if (is_wide) wide_sizes = little_endian(zip64_field, std::uint16_t{16}, size, size);
  const std::uint64_t unpadded = header + local_bytes + name.size() + wide_sizes.size() + 4;
  const auto padding = static_cast<std::uint16_t>((alignment - unpadded % alignment) % alignment);
  const auto extra_size = static_cast<std::uint16_t>(wide_sizes.size() + 4 + padding);
  const std::uint16_t version = is_wide ? 45 : 20;
  write(little_endian(local_signature) + common(version) + little_endian(extra_size) + name + wide_sizes +
        little_endian(padding_field, padding) + std::string(padding, 'Z'));
  file_.write(bytes);
  position_ += size;

  std::string extra;
  if (is_wide) extra += little_endian(size, size);
  if (header >= in_zip64) extra += little_endian(header);
  if (!extra.empty()) extra = little_endian(zip64_field, static_cast<std::uint16_t>(extra.size())) + extra;
  const std::uint16_t central_version = extra.empty() ? 20 : 45;
  // The comment, disk and attribute fields are 0.
  directory_ += little_endian(central_signature, central_version) + common(central_version) +
                little_endian(static_cast<std::uint16_t>(extra.size()), std::uint16_t{0}, std::uint16_t{0},
                              std::uint16_t{0}, std::uint32_t{0}, narrow(header)) +
                name + extra;
  ++entries_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = position_, size = directory_.size();
  write(directory_);
  if (entries_ >= 0xffff || begin >= in_zip64 || size >= in_zip64) {
    const std::uint64_t record = position_;
    write(little_endian(end64_signature, std::uint64_t{end64_bytes - 12}, std::uint16_t{45}, std::uint16_t{45},
                        std::uint32_t{0}, std::uint32_t{0}, entries_, entries_, size, begin));
    write(little_endian(locator64_signature, std::uint32_t{0}, record, std::uint32_t{1}));
  }
  const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(entries_, 0xffff));
  const auto narrow = [](std::uint64_t value) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, in_zip64));
  };
  write(little_endian(end_signature, std::uint16_t{0}, std::uint16_t{0}, count, count, narrow(size), narrow(begin),
                      std::uint16_t{0}));
}

}  // namespace tandem

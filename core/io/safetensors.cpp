#include <tandem/core/io/safetensors.h>

#include <tandem/core/io/atomic_file.h>
#include <tandem/core/io/crc32.h>
#include <tandem/core/io/input_file.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <locale>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

using json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "the file's numbers are little-endian and are read without conversion");

constexpr std::uint64_t largest_header = 100'000'000;
constexpr const char* metadata_key = "__metadata__";
constexpr const char* checksums_key = "tandem.crc32";
// Says that the file has checksums. Without this key, damage to the other key would make the file look like one without
// checksums. The checksum of the metadata covers this key, so damage to either key is detected.
constexpr const char* kind_key = "tandem.checksums";
constexpr const char* kind = "crc32";
// While an array is read, the checksum is computed piece by piece, while each piece is still in the processor's cache.
constexpr std::uint64_t piece = 256 << 10;

// The dtypes in the order of the reference implementation's enumeration. Its writer sorts by that order, descending.
constexpr std::array<std::pair<DType, std::string_view>, 8> dtype_names = {{
    {DType::boolean, "BOOL"},
    {DType::u8, "U8"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::i32, "I32"},
    {DType::f32, "F32"},
    {DType::f64, "F64"},
    {DType::i64, "I64"},
}};

std::size_t order_of(DType dtype) {
  const auto found =
      std::find_if(dtype_names.begin(), dtype_names.end(), [&](auto& row) { return row.first == dtype; });
  return static_cast<std::size_t>(found - dtype_names.begin());
}

std::string hex_digits(std::uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", crc);
  return text;
}

// Returns the checksum of all metadata except the checksums themselves.
std::string checksum_of(const std::map<std::string, std::string>& metadata) {
  std::uint32_t crc = 0;
  for (const auto& [key, value] : metadata) {
    crc = crc32_of(key.c_str(), key.size() + 1, crc);
    crc = crc32_of(value.c_str(), value.size() + 1, crc);
  }
  return hex_digits(crc);
}

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin;  // in bytes, from the start of the buffer
  std::uint64_t end;
};

// Detects legal JSON that is not allowed in a header: a key that appears twice, which could hide one tensor behind
// another, and deeper nesting than descriptions of tensors need. json::parse() with a callback would detect both too,
// but its time is quadratic in the number of tensors.
struct HeaderCheck : nlohmann::json_sax<json> {
  std::optional<std::string> duplicate;
  bool is_deep = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool key(std::string& name) override {
    if (!keys.back().insert(name).second) duplicate = name;
    return !duplicate;
  }
  bool start_array(std::size_t) override { return start_object(0); }
  bool end_array() override { return end_object(); }
  bool start_object(std::size_t) override {
    is_deep = keys.size() == 3;
    keys.emplace_back();
    return !is_deep;
  }
  bool end_object() override {
    keys.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

 private:
  std::vector<std::set<std::string>> keys;  // of each object from the outermost inwards; empty for arrays
};

class Reader : InputFile {
 public:
  explicit Reader(const std::filesystem::path& path) : InputFile(path, "safetensors file") {}

  Safetensors arrays(const std::function<bool(const std::string&)>& wanted, Unwanted unwanted) {
    const std::string header = read_header();
    Safetensors result;
    const std::vector<Entry> entries = parse(header, result.metadata);
    check_layout(entries, 8 + header.size());
    const auto checksums = take_checksums(result.metadata);
    result.has_checksums = checksums.has_value();
    if (checksums) check_names(entries, *checksums);
    for (const auto& entry : entries) {
      const bool is_wanted = !wanted || wanted(entry.name);
      if (!is_wanted && unwanted == Unwanted::left) continue;
      Array array = Array::empty(entry.shape, entry.dtype);
      const auto crc = read_array(entry, 8 + header.size(), array, result.has_checksums);
      if (checksums) check_sum("tensor \"" + entry.name + '"', hex_digits(crc), checksums->at(entry.name));
      if (entry.dtype == DType::boolean) check_booleans(entry, array);
      if (is_wanted) result.arrays.push_back({entry.name, std::move(array)});
    }
    return result;
  }

 private:
  // Returns the CRC-32 of the bytes, or 0 if the caller does not want it.
  std::uint32_t read_array(const Entry& entry, std::uint64_t data_begin, Array& array, bool wants_crc) const {
    std::uint32_t crc = 0;
    auto* const bytes = static_cast<char*>(array.raw());
    const std::uint64_t size = entry.end - entry.begin, step = wants_crc ? piece : size;
    for (std::uint64_t at = 0; at < size; at += step) {
      const std::uint64_t count = std::min(step, size - at);
      read(bytes + at, count, data_begin + entry.begin + at);
      if (wants_crc) crc = crc32_of(bytes + at, count, crc);
    }
    return crc;
  }

  // Returns the checksums in the file, by the name of the array, or nullopt if the file has none. Removes them from
  // `metadata`, and checks the remaining metadata.
  std::optional<std::map<std::string, std::string>> take_checksums(std::map<std::string, std::string>& metadata) const {
    const auto found = metadata.find(checksums_key);
    if (found == metadata.end()) {
      check(!metadata.contains(kind_key), "its metadata entry \"", kind_key, "\" says that it has checksums, but \"",
            checksums_key, "\" is missing", advice);
      return std::nullopt;
    }
    std::map<std::string, std::string> checksums;
    const json parsed = parse_json(found->second, std::string("the metadata \"") + checksums_key + '"');
    check(parsed.is_object(), "the metadata \"", checksums_key, "\" must be a JSON object, found ", parsed.type_name());
    for (const auto& [name, crc] : parsed.items()) {
      check(crc.is_string(), "the checksum of \"", name, "\" must be a string, found ", crc.type_name());
      checksums[name] = crc.get<std::string>();
    }
    metadata.erase(found);
    const auto own = checksums.extract(metadata_key);
    check(!own.empty(), "its metadata has no checksum", advice);
    check_sum("its metadata", checksum_of(metadata), own.mapped());
    metadata.erase(kind_key);
    return checksums;
  }

  void check_names(const std::vector<Entry>& entries, const std::map<std::string, std::string>& checksums) const {
    for (const auto& entry : entries)
      check(checksums.contains(entry.name), "tensor \"", entry.name, "\" has no checksum, but others have", advice);
    // Every tensor has a checksum, and names are unique. If the numbers are equal, the names are therefore the same.
    check(entries.size() == checksums.size(), "it has checksums of ", checksums.size(), " tensors, but ",
          entries.size(), " tensors", advice);
  }

  void check_sum(const std::string& what, const std::string& found, const std::string& expected) const {
    check(found == expected, what, " should have the CRC-32 ", expected, ", but has ", found, advice);
  }

  static constexpr const char* advice =
      ": the file is damaged, or a program has changed it and kept the metadata \"tandem...\" of the old file";

  std::string read_header() {
    const std::uint64_t size = InputFile::size();
    check(size >= 8, "has ", size,
          " bytes, but the length of the header alone takes 8; it is truncated or in another format");
    std::uint64_t length = 0;
    read(&length, 8, 0);
    check(length <= largest_header, "announces a header of ", length, " bytes, but at most ", largest_header,
          " are allowed; it is damaged or in another format");
    check(length <= size - 8, "announces a header of ", length, " bytes, but only ", size - 8,
          " bytes follow; it is truncated or in another format");
    const std::string header = read(length, 8);
    check(!header.empty() && header.front() == '{', "the header must begin with {; it is damaged or in another format");
    // The JSON parser would treat a NUL byte as the end, and ignore the rest.
    check(header.find('\0') == std::string::npos, "the header is not JSON: it contains a NUL byte");
    return header;
  }

  // `what` names the text: "the header", "the metadata \"x\"".
  json parse_json(const std::string& text, const std::string& what) const {
    HeaderCheck header;
    json::sax_parse(text, &header);
    check(!header.is_deep, what, " is JSON that is nested deeper than tensor descriptions are");
    check(!header.duplicate, "the key \"", header.duplicate.value_or(""), "\" appears twice in ", what);
    try {
      return json::parse(text);
    } catch (const json::exception& error) {
      check(false, what, " is not JSON: ", error.what());
      throw;
    }
  }

  std::vector<Entry> parse(const std::string& header, std::map<std::string, std::string>& metadata) const {
    const json root = parse_json(header, "the header");
    std::vector<Entry> entries;
    for (const auto& [name, value] : root.items()) {
      if (name == metadata_key && value.is_null()) continue;  // the reference reader also accepts null
      check(value.is_object(), "\"", name, "\" must be a JSON object, found ", value.type_name());
      if (name != metadata_key) {
        entries.push_back(parse_entry(name, value));
        continue;
      }
      for (const auto& [key, text] : value.items()) {
        check(text.is_string(), "metadata \"", key, "\" must be a string, found ", text.type_name());
        metadata[key] = text.get<std::string>();
      }
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    return entries;
  }

  const json& field(const std::string& name, const json& value, const char* key) const {
    const auto found = value.find(key);
    check(found != value.end(), "tensor \"", name, "\" has no \"", key, "\"");
    return *found;
  }

  Entry parse_entry(const std::string& name, const json& value) const {
    Entry entry;
    entry.name = name;

    const json& dtype = field(name, value, "dtype");
    check(dtype.is_string(), "tensor \"", name, "\": dtype must be a string, found ", dtype.type_name());
    const auto& text = dtype.get_ref<const std::string&>();
    const auto known =
        std::find_if(dtype_names.begin(), dtype_names.end(), [&](auto& row) { return row.second == text; });
    check(known != dtype_names.end(), "tensor \"", name, "\" has dtype \"", text,
          "\"; supported dtypes are BOOL, U8, I32, I64, F16, BF16, F32 and F64: convert it in the program that wrote "
          "the file");
    entry.dtype = known->first;

    const json& shape = field(name, value, "shape");
    check(shape.is_array(), "tensor \"", name, "\": shape must be a list, found ", shape.type_name());
    check(shape.size() <= Dims::max_ndim, "tensor \"", name, "\" has ", shape.size(), " dimensions, but at most ",
          Dims::max_ndim, " are supported");
    std::uint64_t bytes = size_of(entry.dtype);
    for (const auto& size : shape) {
      check(size.is_number_unsigned() && size.get<std::uint64_t>() <= INT64_MAX, "tensor \"", name,
            "\": its shape contains ", size.dump(), ", expected integers of 0 or more");
      const auto n = size.get<std::uint64_t>();
      check(!__builtin_mul_overflow(bytes, n, &bytes), "tensor \"", name, "\": the size of shape ", shape.dump(),
            " does not fit in 64 bits");
      entry.shape.push_back(static_cast<std::int64_t>(n));
    }

    const json& offsets = field(name, value, "data_offsets");
    check(
        offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned(),
        "tensor \"", name, "\": data_offsets must be two integers of 0 or more, found ", offsets.dump());
    entry.begin = offsets[0].get<std::uint64_t>();
    entry.end = offsets[1].get<std::uint64_t>();
    check(entry.begin <= entry.end, "tensor \"", name, "\": data_offsets ", offsets.dump(), " end before they begin");
    check(entry.end - entry.begin == bytes, "tensor \"", name, "\": dtype ", text, " and shape ", shape.dump(),
          " make ", bytes, " bytes, but data_offsets ", offsets.dump(), " span ", entry.end - entry.begin);
    return entry;
  }

  // Throws an Error unless the tensors fill the bytes after the header exactly.
  void check_layout(const std::vector<Entry>& entries, std::uint64_t header_end) const {
    std::uint64_t expected = 0;
    for (const auto& entry : entries) {
      check(entry.begin == expected, "tensor \"", entry.name, "\" begins at byte ", entry.begin,
            " of the data, expected ", expected, ": there is ",
            entry.begin > expected ? "a hole before it" : "an overlap with the tensor before it");
      expected = entry.end;
    }
    const std::uint64_t found = size() - header_end;
    check(found == expected, "the header describes ", expected, " bytes of data, but ", found,
          " follow it: ", found < expected ? "the file is truncated" : "there are bytes that belong to no tensor");
  }

  void check_booleans(const Entry& entry, const Array& array) const {
    const auto* bytes = static_cast<const unsigned char*>(array.raw());
    const auto* end = bytes + array.numel();
    const auto* bad = std::find_if(bytes, end, [](unsigned char byte) { return byte > 1; });
    check(bad == end, "tensor \"", entry.name, "\": element ", bad - bytes, " of a BOOL tensor must be 0 or 1, but is ",
          bad == end ? 0 : static_cast<int>(*bad));
  }
};

std::string quoted(const std::string& text, const std::string& path) {
  try {
    return json(text).dump();
  } catch (const json::exception& error) {
    detail::fail("safetensors file ", path, ": a name or metadata string is not valid UTF-8: ", error.what());
  }
}

Array row_major(const Array& array) { return array.to(Device{}).contiguous(); }

bool comes_before(const ExpectedArray& a, const ExpectedArray& b) {
  const auto order_a = order_of(a.dtype);
  const auto order_b = order_of(b.dtype);
  return order_a != order_b ? order_a > order_b : a.name < b.name;
}

std::string checksums_of(const std::vector<ExpectedArray>& arrays, const std::map<std::string, std::string>& metadata,
                         const std::string& path) {
  std::ostringstream out;
  out << '{' << quoted(metadata_key, path) << ':' << quoted(checksum_of(metadata), path);
  for (const auto& array : arrays) out << ',' << quoted(array.name, path) << ':' << quoted(hex_digits(array.crc), path);
  out << '}';
  return out.str();
}

std::string make_header(const std::vector<ExpectedArray>& arrays, const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  const char* separator = "{";
  if (!metadata.empty()) {
    out << separator << quoted(metadata_key, path) << ':';
    for (const auto& [key, value] : metadata) {
      out << separator << quoted(key, path) << ':' << quoted(value, path);
      separator = ",";
    }
    out << '}';
  }
  std::uint64_t offset = 0;
  for (const auto& [name, dtype, shape, crc] : arrays) {
    out << separator << quoted(name, path) << ":{\"dtype\":\"" << dtype_names[order_of(dtype)].second
        << "\",\"shape\":[";
    for (int i = 0; i < shape.ndim(); ++i) out << (i > 0 ? "," : "") << shape[i];
    const std::uint64_t end = offset + static_cast<std::uint64_t>(shape.product()) * size_of(dtype);
    out << "],\"data_offsets\":[" << offset << ',' << end << "]}";
    offset = end;
    separator = ",";
  }
  if (metadata.empty() && arrays.empty()) out << '{';
  out << '}';
  std::string header = out.str();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path,
                             const std::function<bool(const std::string& name)>& wanted, Unwanted unwanted) {
  return Reader(path).arrays(wanted, unwanted);
}

void sort_as_in_safetensors(std::vector<ExpectedArray>& arrays) {
  std::sort(arrays.begin(), arrays.end(), comes_before);
}

std::uint32_t checksum_of(const Array& array) {
  const Array rows = row_major(array);
  return crc32_of(rows.raw(), rows.bytes());
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& given_metadata, Checksums checksums,
                       std::span<const ExpectedArray> expected,
                       const std::function<Array(const ExpectedArray&)>& take) {
  const std::string where = path.string();
  std::map<std::string_view, const Array*> known;  // null for expected arrays
  std::vector<ExpectedArray> sorted;
  const auto add = [&](ExpectedArray entry, std::string_view name, const Array* array) {
    TANDEM_CHECK(name != metadata_key, "safetensors file ", where, ": \"", metadata_key,
                 "\" cannot be the name of an array; the format reserves it");
    TANDEM_CHECK(known.emplace(name, array).second, "safetensors file ", where, ": two arrays are named \"", name,
                 "\"; names must be unique");
    sorted.push_back(std::move(entry));
  };
  for (const auto& [name, array] : arrays) {
    TANDEM_CHECK(array.defined(), "safetensors file ", where, ": array \"", name, "\" is undefined");
    const std::uint32_t crc = checksums == Checksums::crc32 ? checksum_of(array) : 0;
    add({name, array.dtype(), array.shape(), crc}, name, &array);
  }
  for (const auto& entry : expected) add(entry, entry.name, nullptr);
  sort_as_in_safetensors(sorted);
  auto metadata = given_metadata;
  metadata.erase(checksums_key);
  metadata.erase(kind_key);
  if (checksums == Checksums::crc32) {
    metadata[kind_key] = kind;
    metadata[checksums_key] = checksums_of(sorted, metadata, where);
  }
  const std::string header = make_header(sorted, metadata, where);
  TANDEM_CHECK(header.size() <= largest_header, "safetensors file ", where, ": the header would take ", header.size(),
               " bytes, but at most ", largest_header, " are allowed; use fewer or shorter names and metadata");

  AtomicFile file(path);
  const std::uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (const auto& entry : sorted) {
    const Array* const array = known.at(entry.name);
    const Array taken = array ? *array : take(entry);
    TANDEM_CHECK(taken.dtype() == entry.dtype && taken.shape() == entry.shape, "safetensors file ", where, ": array \"",
                 entry.name, "\" is ", taken.shape(), ' ', taken.dtype(), ", described as ", entry.shape, ' ',
                 entry.dtype);
    const Array rows = row_major(taken);
    file.write(rows.raw(), rows.bytes());
  }
  file.commit();
}

}  // namespace tandem

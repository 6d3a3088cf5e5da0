#include <tandem/core/io/pth_contents.h>
#include <tandem/core/io/zip_file.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

namespace tandem {
namespace {

using Id = PickleValue::Id;
using Kind = PickleValue::Kind;

// A state dict takes a few hundred bytes per tensor, so 64 MiB hold far more tensors than any model has.
constexpr std::uint64_t largest_pickle = std::uint64_t{64} << 20;
// The pickles at the beginning of the old format contain few values: a number, a version and a description of the
// machine.
constexpr std::size_t most_preface_values = 1000;
constexpr std::string_view magic =
    "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";  // the old format begins with this number, an integer of 10 bytes

// A storage of version 2.0 and later may be untyped: its elements are bytes, and its tensors have a dtype.
constexpr std::string_view untyped = "torch.storage.UntypedStorage";
constexpr StorageType storage_types[] = {
    {"torch.DoubleStorage", "float64", 8, DType::f64},
    {"torch.FloatStorage", "float32", 4, DType::f32},
    {"torch.HalfStorage", "float16", 2, DType::f16},
    {"torch.BFloat16Storage", "bfloat16", 2, DType::bf16},
    {"torch.LongStorage", "int64", 8, DType::i64},
    {"torch.IntStorage", "int32", 4, DType::i32},
    {"torch.ShortStorage", "int16", 2, DType::i32},
    {"torch.CharStorage", "int8", 1, DType::i32},
    {"torch.ByteStorage", "uint8", 1, DType::u8},
    {"torch.BoolStorage", "bool", 1, DType::boolean},
    {untyped, "bytes", 1, DType::u8},
    {"torch.ComplexDoubleStorage", "complex128", 16, {}},
    {"torch.ComplexFloatStorage", "complex64", 8, {}},
    {"torch.QInt32Storage", "qint32", 4, {}},
    {"torch.QInt8Storage", "qint8", 1, {}},
    {"torch.QUInt8Storage", "quint8", 1, {}},
    {"torch.QUInt4x2Storage", "quint4x2", 1, {}},
    {"torch.QUInt2x4Storage", "quint2x4", 1, {}},
};

// Returns how many values a pickle in the file may contain. Files of torch.save have about one value per hundreds of
// bytes, so memory stays a small multiple of the file's size. No real file has more than 2^22.
std::size_t most_values(const InputFile& file) {
  return std::min<std::uint64_t>((1 << 17) + file.size() / 16, std::uint64_t{1} << 22);
}

constexpr std::size_t longest_key = 1000;  // of a storage, in bytes; PyTorch's keys are numbers

class ZipContents : public PthContents {
 public:
  explicit ZipContents(const InputFile& file) : file_(file), zip_(file) {
    const std::string suffix = "/data.pkl";
    const ZipReader::Entry* found = nullptr;
    for (const auto& entry : zip_.entries()) {
      if (!entry.name.ends_with(suffix) || entry.name.find('/') != entry.name.size() - suffix.size()) continue;
      found = &entry;
      folder_ = entry.name.substr(0, entry.name.size() - suffix.size() + 1);
      break;
    }
    const bool is_program = std::ranges::any_of(zip_.entries(), [](const ZipReader::Entry& entry) {
      return entry.name.ends_with("/constants.pkl") || entry.name.find("/code/") != entry.name.npos;
    });
    file_.check(!is_program, "is a TorchScript program, not a state dict. In Python, save its weights: ",
                "torch.save(torch.jit.load(FILE, map_location=\"cpu\").state_dict(), \"weights.pth\")");
    file_.check(found != nullptr, "is a zip archive, but torch.save did not write it: it has no data.pkl");
    if (const auto* order = zip_.find(folder_ + "byteorder")) {
      file_.check(order->size == 6 && zip_.read(*order) == "little",
                  "has a byteorder that is not \"little\"; big-endian files are not supported");
    }
    file_.check(found->size <= largest_pickle, "its pickle has ", found->size, " bytes, but at most ", largest_pickle,
                " are supported");
    pickle_ = unpickle(zip_.read(*found), most_values(file), file.label());
  }

  const Pickle& pickle() const override { return pickle_; }
  void check(const StorageInfo& info) const override {
    const auto* entry = zip_.find(folder_ + "data/" + info.key);
    file_.check(entry != nullptr, "storage \"", info.key, "\" is missing; it is damaged");
    file_.check(entry->size == info.bytes(), "storage \"", info.key, "\" has ", entry->size, " bytes, expected ",
                info.bytes(), " (", info.elements, " elements of ", info.type->name, "); it is damaged");
  }
  void read(const StorageInfo& info, void* destination) const override {
    zip_.read(*zip_.find(folder_ + "data/" + info.key), destination);
  }

 private:
  const InputFile& file_;
  ZipReader zip_;
  std::string folder_;  // ends with "/"
  Pickle pickle_;
};

class LegacyContents : public PthContents {
 public:
  explicit LegacyContents(const InputFile& file);
  const Pickle& pickle() const override { return pickle_; }
  void check(const StorageInfo& info) const override {
    const auto found = places_.find(info.key);
    file_.check(found != places_.end() && found->second.bytes == info.bytes(), "storage \"", info.key,
                "\" is missing or has another size; it is damaged");
  }
  void read(const StorageInfo& info, void* destination) const override {
    file_.read(destination, info.bytes(), places_.at(info.key).begin);
  }

 private:
  struct Place {
    std::uint64_t begin, bytes;
  };

  const InputFile& file_;
  Pickle pickle_;
  std::map<std::string, Place> places_;

  std::string_view parse(std::string_view bytes, Pickle& keys);
};

LegacyContents::LegacyContents(const InputFile& file) : file_(file) {
  // The length of the pickles is known only after parsing them. The first 1 MiB is read, and more if they continue.
  std::uint64_t count = std::min<std::uint64_t>(file.size(), 1 << 20);
  std::uint64_t position = 0;
  Pickle keys;
  for (;;) {
    const std::string bytes = file.read(count, 0);
    try {
      position = count - parse(bytes, keys).size();
      break;
    } catch (const PickleEndsEarly&) {
      if (count == std::min(file.size(), largest_pickle)) throw;
      count = std::min({count * 4, file.size(), largest_pickle});
    }
  }

  std::map<std::string, StorageInfo> infos;
  for (const auto& value : pickle_.values) {
    if (value.kind != Kind::storage) continue;
    auto info = parse_storage(file, pickle_, value);
    infos.emplace(info.key, std::move(info));
  }
  const auto& list = keys[keys.root];
  file.check(list.kind == Kind::list, "the list of its storages is missing; it is damaged");
  for (const Id id : list.items) {
    const auto found = infos.find(keys[id].text);
    file.check(keys[id].kind == Kind::text && found != infos.end(), "the list of its storages names one that no ",
               "tensor has; it is damaged");
    const auto& info = found->second;
    std::int64_t elements = 0;
    file.check(file.size() - position >= sizeof elements && file.size() - position - sizeof elements >= info.bytes(),
               "storage \"", info.key, "\" ends early; the file is truncated");
    file.read(&elements, sizeof elements, position);
    file.check(elements == info.elements, "storage \"", info.key, "\" has ", elements, " elements, expected ",
               info.elements, "; it is damaged");
    file.check(places_.emplace(info.key, Place{position + sizeof elements, info.bytes()}).second, "storage \"",
               info.key, "\" appears twice; it is damaged");
    position += sizeof elements + info.bytes();
  }
}

// Reads the five pickles of the old format, and returns the bytes after them.
std::string_view LegacyContents::parse(std::string_view bytes, Pickle& keys) {
  pickle_ = {};
  const auto next = [&](std::size_t most) {
    Pickle pickle = unpickle(bytes, most, file_.label());
    bytes.remove_prefix(pickle.bytes);
    return pickle;
  };
  const Pickle number = next(most_preface_values);
  file_.check(number[number.root].kind == Kind::opaque && number[number.root].text == magic,
              "was not written by torch.save: its first pickle is not torch.save's magic number");
  const Pickle version = next(most_preface_values);
  file_.check(version[version.root].integer == 1001, "is of version ", version[version.root].integer,
              " of PyTorch's old format, expected 1001");
  const Pickle system = next(most_preface_values);
  const auto& entries = system[system.root].items;
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const bool is_order = system[entries[i]].text == "little_endian";
    file_.check(!is_order || system[entries[i + 1]].integer == 1,
                "was written on a big-endian machine, which is not supported");
  }
  pickle_ = next(most_values(file_));
  keys = next(most_values(file_));
  return bytes;
}

}  // namespace

const StorageType* find_storage_type(std::string_view dtype_name) {
  const auto found = std::ranges::find(storage_types, dtype_name, &StorageType::dtype_name);
  return found == std::end(storage_types) ? nullptr : &*found;
}

StorageInfo parse_storage(const InputFile& file, const Pickle& pickle, const PickleValue& storage) {
  const auto kind = [&](std::size_t i) {
    return i < storage.items.size() ? pickle[storage.items[i]].kind : Kind::none;
  };
  file.check(kind(0) == Kind::text && pickle[storage.items[0]].text == "storage" && kind(1) == Kind::global &&
                 kind(2) == Kind::text && kind(4) == Kind::integer,
             "the description of a storage is invalid; it is damaged");
  StorageInfo info;
  info.key = pickle[storage.items[2]].text;
  file.check(info.key.size() <= longest_key, "the key of a storage has ", info.key.size(), " bytes, but at most ",
             longest_key, " are supported; it is damaged");
  const auto& name = pickle[storage.items[1]].text;
  const auto type = std::ranges::find(storage_types, name, &StorageType::name);
  file.check(type != std::end(storage_types), "storage \"", info.key, "\" is of type ", name,
             ", which is not supported");
  info.type = &*type;
  info.elements = pickle[storage.items[4]].integer;
  file.check(info.elements >= 0 && static_cast<std::uint64_t>(info.elements) <= file.size() / info.type->size,
             "storage \"", info.key, "\" announces ", info.elements, " elements, more than the file can hold; ",
             "it is truncated or damaged");
  if (kind(5) == Kind::none) return info;
  // A view of the storage: its key, its first element and its size.
  const auto& view = pickle[storage.items[5]];
  file.check(view.items.size() == 3 && pickle[view.items[1]].integer >= 0, "storage \"", info.key,
             "\" has a view with an invalid description; it is damaged");
  info.first = pickle[view.items[1]].integer;
  return info;
}

std::unique_ptr<PthContents> open_pth(const InputFile& file) {
  char first[2] = {};
  file.read(first, std::min<std::uint64_t>(file.size(), sizeof first), 0);
  if (std::memcmp(first, "PK", 2) == 0) return std::make_unique<ZipContents>(file);
  file.check(first[0] == '\x80', "begins neither as a zip archive nor as a pickle: it was not written by torch.save");
  return std::make_unique<LegacyContents>(file);
}

}  // namespace tandem

#include <tandem/core/io/input_file.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/pth_contents.h>
#include <tandem/core/io/utf8.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace tandem {
namespace {

using Id = PickleValue::Id;
using Kind = PickleValue::Kind;

static_assert(std::endian::native == std::endian::little,
              "the file's numbers are little-endian and are read as they are");

constexpr int deepest = 32;
constexpr std::size_t longest_name = 1000;  // bytes of the name of one level
// Limits how often all tensors together may show each byte of the file, as views that share storages.
constexpr std::int64_t most_views = 64;

template <class From>
void widen(const std::string& bytes, Array& array) {
  for (std::int64_t i = 0; i < array.numel(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    array.data<std::int32_t>()[i] = value;
  }
}

// Collects the tensors below one value of the pickle, as arrays.
class StateReader {
 public:
  StateReader(const InputFile& file, const PthContents& contents)
      : file_(file), contents_(contents), pickle_(contents.pickle()) {}

  std::vector<NamedArray> read(const std::string& key) {
    walk(find(key), "", 0);
    return std::move(arrays_);
  }

 private:
  const InputFile& file_;
  const PthContents& contents_;
  const Pickle& pickle_;
  std::vector<NamedArray> arrays_;
  std::set<std::string> names_;
  std::map<std::string, std::pair<StorageInfo, std::shared_ptr<Storage>>> storages_;
  std::size_t steps_ = 0;
  std::int64_t elements_ = 0;

  Id find(const std::string& key) const;
  void walk(Id id, const std::string& name, int depth);
  std::string text_of(Id key) const;
  std::shared_ptr<Storage> storage(const StorageInfo& info);
  Array tensor(const PickleValue& value, const std::string& name);
  Dims numbers(Id id, const std::string& name) const;
};

// A key of a dict, as a part of a name.
std::string StateReader::text_of(Id key) const {
  const auto& value = pickle_[key];
  file_.check(value.kind == Kind::text || value.kind == Kind::integer, "a dict has a key that is neither text nor a ",
              "number; it is no state dict");
  if (value.kind == Kind::integer) return std::to_string(value.integer);
  file_.check(value.text.size() <= longest_name, "a name in it has ", value.text.size(), " bytes, at most ",
              longest_name, " are read");
  file_.check(is_utf8(value.text), "a name in it is not valid UTF-8; it is damaged");
  return value.text;
}

Id StateReader::find(const std::string& key) const {
  const auto& root = pickle_[pickle_.root];
  if (root.kind != Kind::dict) {
    file_.check(key.empty(), "holds no dict, so there is no \"", key, "\" in it");
    return pickle_.root;
  }
  std::string names;
  bool has_tensors = false;
  std::map<std::string, Id> entries;
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    const std::string name = text_of(root.items[i]);
    const auto kind = pickle_[root.items[i + 1]].kind;
    has_tensors |= kind == Kind::tensor;
    entries[name] = root.items[i + 1];
    if (i < 40) names += (names.empty() ? "\"" : ", \"") + name + "\"";
    if (i == 40) names += ", ...";
  }
  if (!key.empty()) {
    const auto found = entries.find(key);
    file_.check(found != entries.end(), "has no \"", key, "\", but ", names.empty() ? "nothing" : names);
    return found->second;
  }
  if (has_tensors || entries.empty()) return pickle_.root;
  for (const char* usual : {"model", "state_dict", "model_state_dict", "MODEL_STATE"}) {
    const auto found = entries.find(usual);
    if (found != entries.end() && pickle_[found->second].kind == Kind::dict) return found->second;
  }
  file_.check(false, "is a checkpoint of ", names, ": name the one that is the state dict");
  return 0;
}

void StateReader::walk(Id id, const std::string& name, int depth) {
  file_.check(depth <= deepest, "is nested deeper than ", deepest, " levels: it is no state dict");
  // When nothing is repeated, each value takes at least a byte of the pickle, and its name is in the pickle too.
  steps_ += 1 + name.size() / 64;
  file_.check(steps_ <= pickle_.bytes, "holds the same values again and again: it is made to harm");
  const auto& value = pickle_[id];
  const auto below = [&](const std::string& part) { return name.empty() && depth == 0 ? part : name + "." + part; };
  if (value.kind == Kind::tensor) {
    file_.check(names_.insert(name).second, "two tensors are named \"", name, "\"");
    arrays_.push_back({name, tensor(value, name)});
  } else if (value.kind == Kind::dict) {
    for (std::size_t i = 0; i < value.items.size(); i += 2)
      walk(value.items[i + 1], below(text_of(value.items[i])), depth + 1);
  } else if (value.kind == Kind::list || value.kind == Kind::tuple) {
    for (std::size_t i = 0; i < value.items.size(); ++i) walk(value.items[i], below(std::to_string(i)), depth + 1);
  }
}

Dims StateReader::numbers(Id id, const std::string& name) const {
  const auto& items = pickle_[id].items;
  file_.check(items.size() <= Dims::max_ndim, "tensor \"", name, "\" has ", items.size(), " dimensions, at most ",
              Dims::max_ndim, " can be read");
  Dims dims;
  for (const Id item : items) {
    file_.check(pickle_[item].kind == Kind::integer && pickle_[item].integer >= 0, "tensor \"", name,
                "\" has a size or stride that is no whole number from 0; it is damaged");
    dims.push_back(pickle_[item].integer);
  }
  return dims;
}

Array StateReader::tensor(const PickleValue& value, const std::string& name) {
  const auto info = parse_storage(file_, pickle_, pickle_[value.items[0]]);
  const std::int64_t offset = pickle_[value.items[1]].integer;
  const Shape shape = numbers(value.items[2], name);
  const Strides strides = numbers(value.items[3], name);
  file_.check(shape.ndim() == strides.ndim(), "tensor \"", name, "\" has the shape ", shape, " and the strides ",
              strides, "; it is damaged");
  std::int64_t numel = 1, last = offset;
  bool fits = offset >= 0;
  for (int i = 0; i < shape.ndim(); ++i) fits &= !__builtin_mul_overflow(numel, shape[i], &numel);
  for (int i = 0; i < shape.ndim() && fits && numel > 0; ++i) {
    std::int64_t span = 0;
    fits = !__builtin_mul_overflow(shape[i] - 1, strides[i], &span) && !__builtin_add_overflow(last, span, &last);
  }
  file_.check(fits && (numel == 0 ? offset <= info.elements : last < info.elements), "tensor \"", name, "\" of shape ",
              shape, ", strides ", strides, " and offset ", offset, " does not fit in its storage of ", info.elements,
              " elements; it is damaged");
  const auto limit =
      static_cast<std::int64_t>(std::min<std::uint64_t>(file_.size(), INT64_MAX / most_views)) * most_views;
  file_.check(!__builtin_add_overflow(elements_, numel, &elements_) && elements_ <= limit, "tensor \"", name,
              "\" of shape ", shape, ": all together have more elements than a file of ", file_.size(),
              " bytes has use for; it is made to harm");
  if (numel == 0) return Array::empty(shape, info.type->dtype);
  return {storage(info), shape, strides, offset, info.type->dtype};
}

std::shared_ptr<Storage> StateReader::storage(const StorageInfo& info) {
  const auto found = storages_.find(info.key);
  if (found != storages_.end()) {
    const auto& [before, storage] = found->second;
    file_.check(before.type == info.type && before.elements == info.elements, "storage \"", info.key,
                "\" is described in two ways; it is damaged");
    return storage;
  }
  contents_.check(info);
  Array array = Array::empty({info.elements}, info.type->dtype);
  if (info.type->size == size_of(info.type->dtype)) {
    contents_.read(info, array.raw());
  } else {
    std::string bytes(info.bytes(), '\0');
    contents_.read(info, bytes.data());
    info.type->size == 1 ? widen<std::int8_t>(bytes, array) : widen<std::int16_t>(bytes, array);
  }
  if (info.type->dtype == DType::boolean) {
    // Any byte but 0 is true, as it is for PyTorch. Bytes that no view shows may be anything.
    auto* bytes = static_cast<unsigned char*>(array.raw());
    for (std::int64_t i = 0; i < array.numel(); ++i) bytes[i] = bytes[i] != 0;
  }
  storages_[info.key] = {info, array.storage()};
  return array.storage();
}

}  // namespace

std::vector<NamedArray> read_pth(const std::filesystem::path& path, const std::string& key) {
  const InputFile file(path, ".pth file");
  const auto contents = open_pth(file);
  return StateReader(file, *contents).read(key);
}

}  // namespace tandem

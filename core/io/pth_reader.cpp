#include <tandem/core/base/utf8.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/pth_contents.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace tandem {
namespace {

using Id = PickleValue::Id;
using Kind = PickleValue::Kind;

static_assert(std::endian::native == std::endian::little,
              "the file's numbers are little-endian and are read without conversion");

constexpr std::string_view whole_file = ".";
constexpr int deepest = 32;
// The names under which training programs store the model's state dict.
constexpr std::string_view usual_keys[] = {"model", "state_dict", "model_state_dict", "MODEL_STATE"};
constexpr std::size_t most_named = 40;      // entries listed in an Error
constexpr std::size_t longest_name = 1000;  // bytes of the name of one level
constexpr std::size_t few_steps = 1024;     // for tensors that share their numbers, in small files
// Limits how often all tensors together may use each byte of the file, as views that share storages.
constexpr std::int64_t most_views = 64;

template <class From>
void widen(const std::string& bytes, Array& array) {
  for (std::int64_t i = 0; i < array.numel(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    array.data<std::int32_t>()[i] = value;
  }
}

// Negates the elements of a storage in the format of the file.
void negate(char* bytes, const StorageInfo& info) {
  const std::size_t size = info.type->size;
  for (char* end = bytes + info.bytes(); bytes != end; bytes += size) {
    if (is_floating(*info.type->dtype)) {
      bytes[size - 1] ^= '\x80';  // the sign
    } else {
      std::uint64_t value = 0;
      std::memcpy(&value, bytes, size);
      value = -value;
      std::memcpy(bytes, &value, size);
    }
  }
}

// Returns the Python expression to save instead of a tensor of a dtype that Tandem does not support.
const char* substitute_for(std::string_view dtype) {
  if (dtype.starts_with("complex")) return "torch.view_as_real(tensor)";
  if (dtype.starts_with("q")) return "tensor.dequantize()";
  return dtype.starts_with("u") ? "tensor.to(torch.int64)" : "tensor.to(torch.float32)";
}

// Collects the tensors in one value of the pickle as arrays.
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
  struct LoadedStorage {
    StorageInfo info;
    std::shared_ptr<Storage> plain, negated;  // null until needed
  };
  std::map<std::string, LoadedStorage> storages_;
  std::size_t steps_ = 0;
  std::int64_t elements_ = 0;

  Id find(const std::string& key) const;
  Id find_entry(Id dict, const std::string& key) const;
  bool holds_tensors(Id id, std::map<Id, bool>& known, int depth = 0) const;
  void walk(Id id, const std::string& name, int depth);
  std::string text_of(Id key) const;
  std::shared_ptr<Storage> storage(const StorageInfo& info, bool is_negated);
  StorageInfo storage_info(const PickleValue& tensor, const std::string& name) const;
  bool is_negated(Id metadata, const std::string& name) const;
  Array tensor(const PickleValue& value, const std::string& name);
  Dims numbers(Id id, const std::string& name) const;
};

// Returns a key of a dict as part of a name.
std::string StateReader::text_of(Id key) const {
  const auto& value = pickle_[key];
  file_.check(value.kind == Kind::text || value.kind == Kind::integer, "a dict has a key that is neither text nor a ",
              "number; it is not a state dict");
  if (value.kind == Kind::integer) return std::to_string(value.integer);
  file_.check(value.text.size() <= longest_name, "a name in it has ", value.text.size(), " bytes, but at most ",
              longest_name, " are supported");
  file_.check(is_utf8(value.text), "a name in it is not valid UTF-8; it is damaged");
  return value.text;
}

// Returns whether a dict, list or tuple contains tensors. `known` caches earlier answers.
bool StateReader::holds_tensors(Id id, std::map<Id, bool>& known, int depth) const {
  const auto& value = pickle_[id];
  if (value.kind == Kind::tensor || value.kind == Kind::unreadable_tensor) return true;
  if ((value.kind != Kind::dict && value.kind != Kind::list && value.kind != Kind::tuple) || depth > deepest)
    return false;
  const auto [answer, is_new] = known.emplace(id, false);
  if (is_new)
    answer->second = std::ranges::any_of(value.items, [&](Id item) { return holds_tensors(item, known, depth + 1); });
  return answer->second;
}

// Returns the value at a dotted path of keys.
Id StateReader::find_entry(Id dict, const std::string& key) const {
  const auto& items = pickle_[dict].items;
  std::string names;
  std::optional<std::pair<Id, std::string>> below;
  for (std::size_t i = 0; pickle_[dict].kind == Kind::dict && i < items.size(); i += 2) {
    const std::string name = text_of(items[i]);
    if (name == key) return items[i + 1];
    if (key.starts_with(name + '.')) below = {items[i + 1], key.substr(name.size() + 1)};
    if (i < most_named) names += (names.empty() ? "\"" : ", \"") + name + '"';
    if (i == most_named) names += ", ...";
  }
  if (below) return find_entry(below->first, below->second);
  file_.check(false, "has no \"", key, "\"; it has ", names.empty() ? "no entries" : names);
  return 0;
}

Id StateReader::find(const std::string& key) const {
  const auto& root = pickle_[pickle_.root];
  if (key == whole_file || (key.empty() && root.kind != Kind::dict)) return pickle_.root;
  if (!key.empty()) return find_entry(pickle_.root, key);
  std::map<Id, bool> known;
  std::vector<std::pair<std::string, Id>> usual, others;  // dicts with tensors
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    if (pickle_[root.items[i + 1]].kind != Kind::dict || !holds_tensors(root.items[i + 1], known)) continue;
    const std::string name = text_of(root.items[i]);
    if (name.ends_with("_extra_state")) continue;  // the data that a module saves besides its tensors
    const bool is_usual = std::ranges::find(usual_keys, name) != std::end(usual_keys);
    (is_usual ? usual : others).emplace_back(name, root.items[i + 1]);
  }
  if (usual.size() == 1) return usual[0].second;
  const auto& candidates = usual.empty() ? others : usual;
  if (candidates.empty()) return pickle_.root;
  std::string names;
  for (std::size_t i = 0; i < std::min(candidates.size(), most_named); ++i)
    names += (i == 0 ? "\"" : ", \"") + candidates[i].first + '"';
  file_.check(false, "is a checkpoint in which no entry is clearly the model's. These hold tensors: ", names,
              ". Choose one with the option --weights-key of a program, or load_arrays(path, KEY)");
  return 0;
}

void StateReader::walk(Id id, const std::string& name, int depth) {
  file_.check(depth <= deepest, "is nested deeper than ", deepest, " levels: it is not a state dict");
  const auto& value = pickle_[id];
  // If no value is repeated, each takes at least a byte of the pickle, and the pickle contains its name too. A tensor
  // takes 60 bytes. The limit counts the data that is kept for a tensor, so memory is at most about 16 times the
  // pickle.
  steps_ += 1 + name.size() / 64;
  if (value.kind == Kind::tensor) steps_ += (sizeof(NamedArray) + name.size()) / 8;
  file_.check(steps_ <= pickle_.bytes + few_steps,
              "contains the same values again and again: it is probably malicious");
  const auto below = [&](const std::string& part) { return name.empty() && depth == 0 ? part : name + "." + part; };
  if (value.kind == Kind::tensor) {
    file_.check(names_.insert(name).second, "two tensors are named \"", name, "\"");
    arrays_.push_back({name, tensor(value, name)});
  } else if (value.kind == Kind::unreadable_tensor) {
    file_.check(false, "tensor \"", name, "\" ", value.text);
  } else if (value.kind == Kind::dict) {
    for (std::size_t i = 0; i < value.items.size(); i += 2)
      walk(value.items[i + 1], below(text_of(value.items[i])), depth + 1);
  } else if (value.kind == Kind::list || value.kind == Kind::tuple) {
    for (std::size_t i = 0; i < value.items.size(); ++i) walk(value.items[i], below(std::to_string(i)), depth + 1);
  }
}

Dims StateReader::numbers(Id id, const std::string& name) const {
  const auto& items = pickle_[id].items;
  file_.check(items.size() <= Dims::max_ndim, "tensor \"", name, "\" has ", items.size(), " dimensions, but at most ",
              Dims::max_ndim, " are supported");
  Dims dims;
  for (const Id item : items) {
    file_.check(pickle_[item].kind == Kind::integer && pickle_[item].integer >= 0, "tensor \"", name,
                "\" has a size or stride that is negative or not an integer; it is damaged");
    dims.push_back(pickle_[item].integer);
  }
  return dims;
}

// Returns the tensor's storage. If it is untyped, it gets the tensor's dtype.
StorageInfo StateReader::storage_info(const PickleValue& tensor, const std::string& name) const {
  auto info = parse_storage(file_, pickle_, pickle_[tensor.items[0]]);
  std::string_view dtype = info.type->dtype_name;
  if (const auto& own = pickle_[tensor.items[4]]; own.kind == Kind::global) {
    dtype = std::string_view(own.text).substr(own.text.rfind('.') + 1);
    const auto* type = find_storage_type(dtype);
    const auto size = static_cast<std::int64_t>(type ? type->size : 1);
    file_.check(info.type->size == 1 && info.elements % size == 0, "tensor \"", name, "\" is of dtype ", dtype,
                " in a storage of another dtype; it is damaged");
    info.elements /= size;
    info.type = type;
  }
  file_.check(info.type && info.type->dtype, "tensor \"", name, "\" has dtype ", dtype,
              ", which is not supported: in Python, save ", substitute_for(dtype), " instead");
  return info;
}

// Returns whether the numbers of a tensor are the negated numbers of its storage.
bool StateReader::is_negated(Id metadata, const std::string& name) const {
  bool result = false;
  const auto& items = pickle_[metadata].items;
  file_.check(pickle_[metadata].kind == Kind::dict || pickle_[metadata].kind == Kind::none, "tensor \"", name,
              "\" has metadata that is not a dict; it is damaged");
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const std::string key = text_of(items[i]);
    const bool is_set = pickle_[items[i + 1]].integer != 0;
    // The numbers are real, so each is its own conjugate.
    file_.check(!is_set || key == "neg" || key == "conj", "tensor \"", name, "\" has the metadata \"", key,
                "\", which is not supported: in Python, save a clone() of the tensor");
    if (key == "neg") result = is_set;
  }
  return result;
}

Array StateReader::tensor(const PickleValue& value, const std::string& name) {
  const StorageInfo info = storage_info(value, name);
  std::int64_t offset = pickle_[value.items[1]].integer;
  const Shape shape = numbers(value.items[2], name);
  const Strides strides = numbers(value.items[3], name);
  file_.check(shape.ndim() == strides.ndim(), "tensor \"", name, "\" has the shape ", shape, " and the strides ",
              strides, "; it is damaged");
  std::int64_t numel = 1;
  bool fits = offset >= 0 && !__builtin_add_overflow(offset, info.first, &offset);
  for (int i = 0; i < shape.ndim(); ++i) fits &= !__builtin_mul_overflow(numel, shape[i], &numel);
  std::int64_t last = offset;
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
              "\" of shape ", shape, ": with it, all tensors together have too many elements for a file of ",
              file_.size(), " bytes; it is malicious");
  if (numel == 0) return Array::empty(shape, *info.type->dtype);
  return {storage(info, is_negated(value.items[5], name)), shape, strides, offset, *info.type->dtype};
}

std::shared_ptr<Storage> StateReader::storage(const StorageInfo& info, bool is_negated) {
  auto& [before, plain, negated] = storages_[info.key];
  file_.check(before.type == nullptr || (before.type == info.type && before.elements == info.elements),
              "has two different descriptions of storage \"", info.key, "\"; it is damaged");
  before = info;
  auto& storage = is_negated ? negated : plain;
  if (storage) return storage;
  contents_.check(info);
  const DType dtype = *info.type->dtype;
  Array array = Array::empty({info.elements}, dtype);
  const bool is_widened = info.type->size != size_of(dtype);
  std::string narrow(is_widened ? info.bytes() : 0, '\0');
  char* const bytes = is_widened ? narrow.data() : static_cast<char*>(array.raw());
  contents_.read(info, bytes);
  if (is_negated) negate(bytes, info);
  if (is_widened) info.type->size == 1 ? widen<std::int8_t>(narrow, array) : widen<std::int16_t>(narrow, array);
  if (dtype == DType::boolean) {
    // Any byte except 0 is true, as in PyTorch. Bytes that no view uses may have any value.
    for (std::int64_t i = 0; i < array.numel(); ++i) bytes[i] = bytes[i] != 0;
  }
  storage = array.storage();
  return storage;
}

}  // namespace

std::vector<NamedArray> read_pth(const std::filesystem::path& path, const std::string& key) {
  const InputFile file(path, ".pth file");
  const auto contents = open_pth(file);
  return StateReader(file, *contents).read(key);
}

}  // namespace tandem

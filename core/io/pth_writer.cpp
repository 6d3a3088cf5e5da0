#include <tandem/core/base/utf8.h>
#include <tandem/core/io/pth.h>
#include <tandem/core/io/zip_file.h>

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace tandem {
namespace {

const char* storage_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "FloatStorage";
    case DType::f64: return "DoubleStorage";
    case DType::bf16: return "BFloat16Storage";
    case DType::f16: return "HalfStorage";
    case DType::i64: return "LongStorage";
    case DType::i32: return "IntStorage";
    case DType::u8: return "ByteStorage";
    case DType::boolean: return "BoolStorage";
  }
  detail::fail(".pth: invalid dtype ", static_cast<int>(dtype));
}

// Writes pickles of protocol 2, like torch.save, but without a memo: a value that occurs twice is written twice.
class Pickler {
 public:
  Pickler() : bytes_("\x80\x02") { ordered_dict().put("("); }

  void add(const std::string& name, const Array& array, const std::string& key) {
    text(name);
    put("ctorch._utils\n_rebuild_tensor_v2\n(");
    put("(").text("storage").put(std::string("ctorch\n") + storage_name(array.dtype()) + "\n");
    text(key).text("cpu").integer(array.numel()).put("tQ");
    integer(0).integers(array.shape()).integers(contiguous_strides(array.shape()));
    put("\x89").ordered_dict().put("tR");  // the tensor has no gradient and no hooks
  }
  std::string finish() { return bytes_ + "u."; }

 private:
  std::string bytes_;

  Pickler& put(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  template <class T>
  Pickler& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Pickler& ordered_dict() { return put("ccollections\nOrderedDict\n)R"); }
  Pickler& text(const std::string& text) { return put("X").number(static_cast<std::uint32_t>(text.size())).put(text); }
  Pickler& integer(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) return put("J").number(static_cast<std::int32_t>(value));
    return put("\x8a\x08").number(value);
  }
  Pickler& integers(const Dims& values) {
    put("(");
    for (const auto value : values) integer(value);
    return put("t");
  }
};

}  // namespace

void write_pth(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  const std::string where = ".pth file " + path.string() + ": ";
  using View = std::tuple<const void*, std::vector<std::int64_t>, std::vector<std::int64_t>, DType>;
  std::map<View, std::string> keys;
  std::vector<const Array*> storages;
  std::set<std::string_view> names;
  Pickler pickler;
  for (const auto& [name, array] : arrays) {
    TANDEM_CHECK(array.defined(), where, "array \"", name, "\" is undefined");
    TANDEM_CHECK(is_utf8(name) && name.size() <= 0xffffffff, where, "a name is not valid UTF-8");
    TANDEM_CHECK(names.insert(name).second, where, "two arrays are named \"", name, "\"; names must be unique");
    const auto& shape = array.shape();
    const auto& strides = array.strides();
    const View view(array.raw(), {shape.begin(), shape.end()}, {strides.begin(), strides.end()}, array.dtype());
    const auto [place, is_new] = keys.try_emplace(view, std::to_string(storages.size()));
    if (is_new) storages.push_back(&array);
    pickler.add(name, array, place->second);
  }
  const std::string pickle = pickler.finish();

  AtomicFile file(path);
  ZipWriter zip(file);
  const auto add = [&](const std::string& name, const void* data, std::size_t bytes) {
    zip.add("archive/" + name, {static_cast<const std::byte*>(data), bytes});
  };
  add("data.pkl", pickle.data(), pickle.size());
  add("byteorder", "little", 6);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Array rows = storages[i]->to(Device{}).contiguous();
    add("data/" + std::to_string(i), rows.raw(), rows.bytes());
  }
  add("version", "3\n", 2);
  zip.finish();
  file.commit();
}

}  // namespace tandem

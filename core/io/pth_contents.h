// What a .pth file holds: the values of its pickle, and the bytes of its storages. Only read_pth() uses this file.
#pragma once

#include <tandem/core/base/dtype.h>
#include <tandem/core/io/input_file.h>
#include <tandem/core/io/unpickler.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

struct StorageType {
  std::string_view name;        // PyTorch's name: "torch.FloatStorage"
  std::string_view dtype_name;  // and that of its dtype: "float32"
  std::size_t size;             // of an element in the file, in bytes
  std::optional<DType> dtype;   // the dtype of the array that it is read into; nullopt: it cannot be read
};

// The type of the storages with numbers of PyTorch's dtype "float32". Null: Tandem does not have such numbers.
const StorageType* find_storage_type(std::string_view dtype_name);

// What the pickle says about a storage. It is never more than the file can hold.
struct StorageInfo {
  std::string key;
  const StorageType* type = nullptr;
  std::int64_t elements = 0;
  std::int64_t first = 0;  // where the view of it begins that the tensor has, in files of PyTorch before 0.4

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements) * type->size; }  // its size in the file
};

StorageInfo parse_storage(const InputFile& file, const Pickle& pickle, const PickleValue& storage);

// The contents of either form of file. The two forms differ in where the storages are.
class PthContents {
 public:
  virtual ~PthContents() = default;
  virtual const Pickle& pickle() const = 0;
  // Error when the file does not hold exactly info.bytes() for the storage.
  virtual void check(const StorageInfo& info) const = 0;
  // Reads the storage; check() must have been called before.
  virtual void read(const StorageInfo& info, void* destination) const = 0;
};

// The file must outlive the contents.
std::unique_ptr<PthContents> open_pth(const InputFile& file);

}  // namespace tandem

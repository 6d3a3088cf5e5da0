// The contents of a .pth file: the values of its pickle, and the bytes of its storages. Only read_pth() uses this file.
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
  std::string_view dtype_name;  // PyTorch's name of its dtype: "float32"
  std::size_t size;             // of an element in the file, in bytes
  std::optional<DType> dtype;   // the dtype of the array; nullopt: it can't be read
};

// Returns the storage type for PyTorch's dtype ("float32"), or null if Tandem does not support it.
const StorageType* find_storage_type(std::string_view dtype_name);

// The pickle's description of a storage. Its size never exceeds the file.
struct StorageInfo {
  std::string key;
  const StorageType* type = nullptr;
  std::int64_t elements = 0;
  std::int64_t first = 0;  // the offset of the tensor's view of it, in files of PyTorch before 0.4

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements) * type->size; }  // its size in the file
};

StorageInfo parse_storage(const InputFile& file, const Pickle& pickle, const PickleValue& storage);

// The contents of a file in either format. The formats store the storages at different positions.
class PthContents {
 public:
  virtual ~PthContents() = default;
  virtual const Pickle& pickle() const = 0;
  // Throws an Error unless the file contains exactly info.bytes() for the storage.
  virtual void check(const StorageInfo& info) const = 0;
  // Reads the storage. REQUIRES: check() has been called.
  virtual void read(const StorageInfo& info, void* destination) const = 0;
};

// The file must outlive the contents.
std::unique_ptr<PthContents> open_pth(const InputFile& file);

}  // namespace tandem

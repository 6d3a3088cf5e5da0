// NamedArray: one entry of a state dict or of a file of arrays.
#pragma once

#include <tandem/core/array/array.h>

#include <string>

namespace tandem {

struct NamedArray {
  std::string name;
  Array array;
};

}  // namespace tandem

// NamedArray: an entry of a state dict or of a file of arrays.
#pragma once

#include <tandem/core/array/array.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

struct NamedArray {
  std::string name;
  Array array;
};

// Returns a deep copy. The arrays of a state dict share memory with the module, so they change in every later step.
inline std::vector<NamedArray> clone(std::vector<NamedArray> state) {
  for (NamedArray& entry : state) entry.array = entry.array.clone();
  return state;
}

// Returns the entries whose names begin with `from`, and replaces that prefix by `to`. renamed(state, "encoder.", "")
// returns the entries of the module "encoder".
inline std::vector<NamedArray> renamed(const std::vector<NamedArray>& state, std::string_view from,
                                       std::string_view to) {
  std::vector<NamedArray> found;
  for (const auto& [name, array] : state)
    if (name.starts_with(from)) found.push_back({std::string(to) + name.substr(from.size()), array});
  return found;
}

}  // namespace tandem

// NamedArray: one entry of a state dict or of a file of arrays.
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

// A copy. The arrays of a state dict are the module's own: they show the weights of every later step, too.
inline std::vector<NamedArray> clone(std::vector<NamedArray> state) {
  for (NamedArray& entry : state) entry.array = entry.array.clone();
  return state;
}

// The entries whose names begin with `from`, which becomes `to`: renamed(state, "encoder.", "") are those of a part.
inline std::vector<NamedArray> renamed(const std::vector<NamedArray>& state, std::string_view from,
                                       std::string_view to) {
  std::vector<NamedArray> found;
  for (const auto& [name, array] : state)
    if (name.starts_with(from)) found.push_back({std::string(to) + name.substr(from.size()), array});
  return found;
}

}  // namespace tandem

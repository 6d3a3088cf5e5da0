// Lists of the names that modules return.
#pragma once

#include <string>
#include <vector>

namespace tandem::testing {

using Names = std::vector<std::string>;

// Returns the names of named tensors, arrays or modules.
template <class Entries>
Names names_of(const Entries& entries) {
  Names names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

}  // namespace tandem::testing

// Lists of names, as modules give them.
#pragma once

#include <string>
#include <vector>

namespace tandem::testing {

using Names = std::vector<std::string>;

// Of named tensors, arrays or modules.
template <class Entries>
Names names_of(const Entries& entries) {
  Names names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

}  // namespace tandem::testing

#include <tandem/nn/containers.h>

#include <algorithm>

namespace tandem::nn {

Module& Container::operator[](std::int64_t index) const {
  TANDEM_CHECK(-size() <= index && index < size(), class_name(), ": there is no module ", index, ", size is ", size());
  return *children()[static_cast<std::size_t>(index < 0 ? index + size() : index)].second;
}

bool ModuleDict::contains(const std::string& name) const {
  return std::any_of(children().begin(), children().end(), [&](const auto& child) { return child.first == name; });
}

Module& ModuleDict::at(const std::string& name) const {
  std::string names;
  for (const auto& [key, module] : children()) {
    if (key == name) return *module;
    names += (names.empty() ? "" : ", ") + key;
  }
  detail::fail("ModuleDict: there is no module '", name, "'; its modules are: ", names.empty() ? "none" : names);
}

}  // namespace tandem::nn

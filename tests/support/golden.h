// Reads the golden files of tests/golden by name.
#pragma once

#include <tandem/core/array/array.h>

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tandem::testing {

class Golden {
 public:
  explicit Golden(const std::string& file);

  const std::map<std::string, Array>& arrays() const { return arrays_; }
  // The file's metadata about each case.
  const std::map<std::string, nlohmann::json>& cases() const;
  bool has(const std::string& name) const { return arrays_.count(name) != 0; }
  const Array& operator[](const std::string& name) const;

 private:
  std::map<std::string, Array> arrays_;
  std::shared_ptr<const std::map<std::string, nlohmann::json>> cases_;
};

}  // namespace tandem::testing

// Reads the golden files of tests/golden by name.
#pragma once

#include <tandem/core/io/safetensors.h>

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tandem::testing {

class Golden {
 public:
  explicit Golden(const std::string& file) {
    auto read = read_safetensors(std::string(TANDEM_SOURCE_DIR) + "/tests/golden/" + file);
    for (auto& [name, array] : read.arrays) arrays_.emplace(std::move(name), std::move(array));
    for (const auto& [name, text] : read.metadata) cases_.emplace(name, nlohmann::json::parse(text));
  }

  const std::map<std::string, Array>& arrays() const { return arrays_; }
  // The file's metadata about each case.
  const std::map<std::string, nlohmann::json>& cases() const { return cases_; }
  bool has(const std::string& name) const { return arrays_.count(name) != 0; }
  const Array& operator[](const std::string& name) const {
    TANDEM_CHECK(has(name), "there is no golden value ", name);
    return arrays_.at(name);
  }

 private:
  std::map<std::string, Array> arrays_;
  std::map<std::string, nlohmann::json> cases_;
};

}  // namespace tandem::testing

#include <tandem/core/base/check.h>
#include <tandem/core/io/safetensors.h>

#include <support/golden.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace tandem::testing {

Golden::Golden(const std::string& file) {
  auto read = read_safetensors(std::string(TANDEM_SOURCE_DIR) + "/tests/golden/" + file);
  for (auto& [name, array] : read.arrays) arrays_.emplace(std::move(name), std::move(array));
  auto cases = std::make_shared<std::map<std::string, nlohmann::json>>();
  for (const auto& [name, text] : read.metadata) cases->emplace(name, nlohmann::json::parse(text));
  cases_ = std::move(cases);
}

const std::map<std::string, nlohmann::json>& Golden::cases() const { return *cases_; }

const Array& Golden::operator[](const std::string& name) const {
  TANDEM_CHECK(has(name), "there is no golden value ", name);
  return arrays_.at(name);
}

}  // namespace tandem::testing

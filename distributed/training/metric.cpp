#include <tandem/distributed/training/metric.h>

#include <fmt/format.h>

#include <algorithm>

namespace tandem::distributed {
namespace {

std::string shown(double value, Metric::Kind kind) {
  if (kind == Metric::Kind::fraction) return fmt::format("{:.2f} %", 100 * value);
  if (kind == Metric::Kind::seconds) return fmt::format("{:.2f} s", value);
  return fmt::format("{:.5g}", value);
}

}  // namespace

std::string shown(const std::vector<Metric>& metrics) {
  std::string text;
  for (const auto& [name, value, kind] : metrics) {
    const double* const number = std::get_if<double>(&value);
    if (!number) continue;
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", words, shown(*number, kind));
  }
  return text;
}

}  // namespace tandem::distributed

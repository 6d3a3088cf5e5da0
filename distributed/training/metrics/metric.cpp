#include <tandem/distributed/training/metrics/metric.h>

#include <tandem/core/base/check.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::distributed {
namespace {

std::string shown(double number, Metric::Kind kind) {
  const double value = plain(number);
  if (kind == Metric::Kind::fraction) return fmt::format("{:.2f} %", 100 * value);
  if (kind == Metric::Kind::seconds) return fmt::format("{:.2f} s", value);
  return fmt::format("{:.5g}", value);
}

}  // namespace

double plain(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

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

std::string markdown(const Table& table, Metric::Kind kind) {
  TANDEM_CHECK(table.values.size() == table.columns.size(), "a table of ", table.columns.size(),
               " columns has values of ", table.values.size());
  std::string text = "| |", line = "|---|";
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    TANDEM_CHECK(table.values[c].size() == table.rows.size(), "a table of ", table.rows.size(), " rows has ",
                 table.values[c].size(), " values in the column ", table.columns[c]);
    text += ' ' + table.columns[c] + " |";
    line += "---:|";
  }
  text += '\n' + line + '\n';
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    text += "| " + table.rows[r] + " |";
    for (const auto& column : table.values) text += ' ' + (std::isnan(column[r]) ? "-" : shown(column[r], kind)) + " |";
    text += '\n';
  }
  return text;
}

}  // namespace tandem::distributed

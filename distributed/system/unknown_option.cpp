#include <tandem/distributed/system/unknown_option.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem::distributed {
namespace {

// Returns how many letters must be added, removed or changed to turn one text into the other (Levenshtein distance).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// Returns the names in `known` that begin with `name`, as "--a, --b". Python's argparse would accept such an
// abbreviation. Empty if there are no such names, or too many to read.
std::string longer(const std::string& name, const std::vector<std::string>& known) {
  constexpr int most = 4;  // chosen
  std::string names;
  int count = 0;
  for (const auto& candidate : known) {
    if (name.size() < 4 || !candidate.starts_with(name)) continue;
    names += (count++ == 0 ? "" : ", ") + candidate;
  }
  return count > most ? "" : names;
}

// Returns the name in `known` that is most similar to `name`, or an empty string if no name is similar. Two letters may
// differ.
std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = 3;
  for (const auto& candidate : known) {
    const std::size_t d = distance(name, candidate);
    if (d < least) std::tie(best, least) = std::tuple(candidate, d);
  }
  return best;
}

}  // namespace

std::string unknown_option(const CLI::App& app) {
  const std::string given = app.remaining()[0];
  std::vector<std::string> known;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
  const std::string name = given.substr(0, given.find('='));
  std::string meant = nearest(name, known);
  if (meant.empty()) meant = longer(name, known);
  return given + ": unknown; " + (meant.empty() ? "" : "did you mean " + meant + "? ") + "--help lists all options";
}

bool cut_empty_value(const CLI::App& app, std::string& argument) {
  if (!argument.starts_with("--") || argument.find('=') + 1 != argument.size()) return false;
  const auto* option = app.get_option_no_throw(argument.substr(0, argument.size() - 1));
  if (option == nullptr || option->get_items_expected_max() == 0) return false;
  argument.pop_back();
  return true;
}

}  // namespace tandem::distributed

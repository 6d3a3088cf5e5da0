// OptionParser: parses the options of a program. It uses CLI11, but converts and checks every value itself, so all
// errors have the same style.
#pragma once

#include <tandem/core/base/enum_names.h>
#include <tandem/distributed/job/program.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace tandem::distributed {

struct OptionRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

// Parses "90s", "90m" or "2h". Throws a UsageError for any other text.
std::chrono::duration<double> parse_duration(const std::string& name, const std::string& text);

// Steps of a job, counted from 1. The default is all of them.
struct StepWindow {
  std::int64_t first = 1, last = std::numeric_limits<std::int64_t>::max();
  bool operator==(const StepWindow&) const = default;
};

// Parses "10:20", the steps from 10 to 20. Throws a UsageError for any other text.
StepWindow parse_steps(const std::string& name, const std::string& text);

// Each option belongs to a group, under which --help lists it. Dashes and underscores are equivalent in the names of
// options. If an option is set twice, the last value counts. parse() throws a UsageError for an invalid value. The
// variable behind each `value` must outlive parse().
class OptionParser {
 public:
  OptionParser(const std::string& program, const std::string& description);
  ~OptionParser();
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;

  // `set` is called with the user's text. `type` is its placeholder in the help.
  void option(const std::string& group, const std::string& name, const std::string& type, const std::string& help,
              std::function<void(const std::string&)> set);
  // Adds an option with a finite number in `range`. T is double, std::int64_t or std::uint64_t.
  template <class T>
  void number(const std::string& group, const std::string& name, std::function<void(T)> set, const std::string& help,
              OptionRange range);
  template <class T>
  void number(const std::string& group, const std::string& name, T& value, const std::string& help, OptionRange range) {
    number<T>(
        group, name, [&value](T given) { value = given; }, help, range);
  }
  // Adds an option with a non-empty text.
  void text(const std::string& group, const std::string& name, const std::string& type, std::string& value,
            const std::string& help);
  void choice(const std::string& group, const std::string& name, std::vector<std::string> choices,
              std::function<void(const std::string&)> set, const std::string& help);
  // Adds an option with one of the names of E's values (core/base/enum_names.h).
  template <NamedEnum E>
  void choice(const std::string& group, const std::string& name, E& value, const std::string& help) {
    std::vector<std::string> names;
    for (const auto& named : EnumNames<E>::all) names.emplace_back(named.name);
    choice(
        group, name, std::move(names), [&value](const std::string& given) { value = value_named<E>(given); }, help);
  }
  // Adds positional arguments, of which the user must pass at least one.
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // Adds a switch that inverts `value`.
  void flag(const std::string& group, const std::string& name, bool& value, const std::string& help);

  // Returns the text for --help or --version, or an empty string if neither is set.
  std::string parse(int argc, const char* const* argv);

  // Returns whether the user has set the option. Call it after parse().
  bool given(const std::string& name) const;
  // Returns the options that the user has set, by name ("--lr"), with their values. A flag's value is "on".
  const std::map<std::string, std::string>& given() const { return given_; }

 private:
  std::unique_ptr<CLI::App> app_;
  std::map<std::string, std::string> given_;
};

}  // namespace tandem::distributed

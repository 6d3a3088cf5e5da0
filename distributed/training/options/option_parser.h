// OptionParser: the options of a program. It parses with CLI11, but converts and checks every value itself, so that all
// errors read alike.
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

// "90s", "90m" or "2h"; UsageError for any other text.
std::chrono::duration<double> parse_duration(const std::string& name, const std::string& text);

// Steps of a job, counted from 1. The default is all of them.
struct StepWindow {
  std::int64_t first = 1, last = std::numeric_limits<std::int64_t>::max();
  bool operator==(const StepWindow&) const = default;
};

// "10:20" for the steps from 10 to 20; UsageError for any other text.
StepWindow parse_steps(const std::string& name, const std::string& text);

// Each option belongs to a group, under which --help lists it. In the names of options, dashes and underscores are the
// same. Of an option that is given twice, the last value counts. A value that is not allowed is a UsageError. What a
// `value` refers to must outlive parse().
class OptionParser {
 public:
  OptionParser(const std::string& program, const std::string& description);
  ~OptionParser();
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;

  // `set` gets the text that the user gives. `type` stands for it in the help.
  void option(const std::string& group, const std::string& name, const std::string& type, const std::string& help,
              std::function<void(const std::string&)> set);
  // A finite number in `range`. T: double, std::int64_t, std::uint64_t.
  template <class T>
  void number(const std::string& group, const std::string& name, std::function<void(T)> set, const std::string& help,
              OptionRange range);
  template <class T>
  void number(const std::string& group, const std::string& name, T& value, const std::string& help, OptionRange range) {
    number<T>(
        group, name, [&value](T given) { value = given; }, help, range);
  }
  // A text that is not empty.
  void text(const std::string& group, const std::string& name, const std::string& type, std::string& value,
            const std::string& help);
  void choice(const std::string& group, const std::string& name, std::vector<std::string> choices,
              std::function<void(const std::string&)> set, const std::string& help);
  // One of the names of E's values (core/base/enum_names.h).
  template <NamedEnum E>
  void choice(const std::string& group, const std::string& name, E& value, const std::string& help) {
    std::vector<std::string> names;
    for (const auto& named : EnumNames<E>::all) names.emplace_back(named.name);
    choice(
        group, name, std::move(names), [&value](const std::string& given) { value = value_named<E>(given); }, help);
  }
  // Arguments without an option before them, of which there must be one or more.
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // When the user gives it, `value` becomes the opposite.
  void flag(const std::string& group, const std::string& name, bool& value, const std::string& help);

  // Returns the text that --help or --version asks for; empty when neither is given.
  std::string parse(int argc, const char* const* argv);

  // After parse().
  bool given(const std::string& name) const;
  // The options that the user has given, as "--lr", and their values. A flag's value is "on".
  const std::map<std::string, std::string>& given() const { return given_; }

 private:
  std::unique_ptr<CLI::App> app_;
  std::map<std::string, std::string> given_;
};

}  // namespace tandem::distributed

#include <tandem/core/base/number_in.h>
#include <tandem/distributed/system/unknown_option.h>
#include <tandem/distributed/system/version.h>
#include <tandem/distributed/training/options/option_parser.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <type_traits>
#include <utility>

namespace tandem::distributed {
namespace {

constexpr double any = std::numeric_limits<double>::max();

template <class T>
std::string allowed(OptionRange range) {
  std::ostringstream text;
  const bool has_min = range.min > std::numeric_limits<double>::lowest(), has_max = range.max < any;
  text << std::setprecision(10)
       << (std::is_integral_v<T> ? "a whole number"
           : has_min && has_max  ? "a number"
                                 : "a finite number");
  const auto number = [](double bound) { return static_cast<T>(bound); };
  if (has_min && has_max) text << " from " << number(range.min) << " to " << number(range.max);
  else if (has_min && std::is_integral_v<T>) text << " from " << range.min << " to " << std::numeric_limits<T>::max();
  else if (has_min) text << " of at least " << range.min;
  else if (has_max) text << " of at most " << range.max;
  return text.str();
}

// Converts the whole `text` to a number. Throws a UsageError unless it is a finite T in `range`.
template <class T>
T parse_number(const std::string& name, const std::string& text, OptionRange range) {
  const auto value = number_in<T>(text);  // finite, because the largest finite number is the limit
  if (!value || static_cast<double>(*value) < range.min || static_cast<double>(*value) > range.max)
    throw UsageError(name + " " + text + ": expected " + allowed<T>(range));
  return *value;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

// Returns the error for an option that the parser does not know. Users of several processes may have given an option of
// the launcher to the program.
std::string error_for_unknown(const CLI::App& app) {
  const std::string given = app.remaining()[0];
  for (const char* option : {"--nproc-per-node", "--nnodes", "--node-rank", "--standalone", "--max-restarts"})
    if (given.substr(0, given.find('=')) == option)
      return given + " is an option of tandemrun: give it to tandemrun, before the name of the program";
  return unknown_option(app);
}

// Turns "--batch_size=5" into "--batch-size=5".
std::string with_dashes(std::string argument) {
  if (argument.compare(0, 2, "--") != 0) return argument;
  const auto name_end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
  return argument;
}

}  // namespace

std::chrono::duration<double> parse_duration(const std::string& name, const std::string& text) {
  double count = 0;
  const auto end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, count);
  const std::string unit(number.ptr, end);
  const double seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (number.ec != std::errc() || !std::isfinite(count) || count <= 0 || seconds == 0)
    throw UsageError(name + " " + text + ": expected a duration such as 90s, 90m or 2h");
  return std::chrono::duration<double>(count * seconds);
}

StepWindow parse_steps(const std::string& name, const std::string& text) {
  StepWindow steps;
  const auto end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, steps.first);
  const bool has_colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  const auto last = has_colon ? std::from_chars(first.ptr + 1, end, steps.last) : first;
  if (!has_colon || last.ec != std::errc() || last.ptr != end || steps.first < 1 || steps.last < steps.first)
    throw UsageError(name + " " + text + ": expected the first step and the last, such as 10:20");
  return steps;
}

OptionParser::OptionParser(const std::string& program, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->set_help_flag("-h,--help", "this text");
  app_->set_version_flag("--version", [program] { return version_text(program); });
  app_->get_help_ptr()->disable_flag_override();
  app_->get_version_ptr()->disable_flag_override();
  app_->get_formatter()->column_width(30);
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

OptionParser::~OptionParser() = default;

void OptionParser::option(const std::string& group, const std::string& name, const std::string& type,
                          const std::string& help, std::function<void(const std::string&)> set) {
  const auto callback = [this, name, set = std::move(set)](const std::string& text) {
    set(text);
    given_[name] = text;
  };
  app_->add_option_function<std::string>(name, callback, help)->group(group)->type_name(type)->allow_extra_args(false);
}

template <class T>
void OptionParser::number(const std::string& group, const std::string& name, std::function<void(T)> set,
                          const std::string& help, OptionRange range) {
  option(group, name, std::is_integral_v<T> ? "N" : "X", help,
         [set = std::move(set), name, range](const std::string& text) { set(parse_number<T>(name, text, range)); });
}

template void OptionParser::number(const std::string&, const std::string&, std::function<void(double)>,
                                   const std::string&, OptionRange);
template void OptionParser::number(const std::string&, const std::string&, std::function<void(std::int64_t)>,
                                   const std::string&, OptionRange);
template void OptionParser::number(const std::string&, const std::string&, std::function<void(std::uint64_t)>,
                                   const std::string&, OptionRange);

void OptionParser::text(const std::string& group, const std::string& name, const std::string& type, std::string& value,
                        const std::string& help) {
  option(group, name, type, help, [&value, name](const std::string& given) {
    if (given.empty()) throw UsageError(name + ": expected a non-empty text");
    value = given;
  });
}

void OptionParser::choice(const std::string& group, const std::string& name, std::vector<std::string> choices,
                          std::function<void(const std::string&)> set, const std::string& help) {
  std::string type;
  for (const auto& c : choices) type += (type.empty() ? "" : "|") + c;
  option(group, name, type, help, [=](const std::string& given) {
    if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
      throw UsageError(name + " " + given + ": expected " + list(choices));
    }
    set(given);
  });
}

void OptionParser::arguments(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  app_->add_option(name, values, help)->required()->type_name("")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void OptionParser::flag(const std::string& group, const std::string& name, bool& value, const std::string& help) {
  const auto callback = [this, name, &value, turned = !value](std::int64_t) {
    value = turned;
    given_[name] = "on";
  };
  app_->add_flag_function(name, callback, help)->group(group)->disable_flag_override();
}

std::string OptionParser::parse(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    auto argument = with_dashes(argv[i]);
    if (cut_empty_value(*app_, argument)) arguments.emplace_back();
    arguments.push_back(std::move(argument));
  }
  try {
    app_->parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return app_->help();
  } catch (const CLI::CallForVersion&) {
    return app_->version();
  } catch (const CLI::ExtrasError&) {
    throw UsageError(error_for_unknown(*app_));
  } catch (const CLI::RequiredError& error) {
    throw UsageError(std::string(error.what()) + "; --help lists all options");
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    const bool is_flag = text.find("flag override") != std::string::npos;
    const std::string name = text.substr(0, text.find_first_of(": "));
    throw UsageError(is_flag ? "--" + name + ": takes no value" : name + ": expected a value after it");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  return "";
}

bool OptionParser::given(const std::string& name) const { return given_.contains(name); }

}  // namespace tandem::distributed

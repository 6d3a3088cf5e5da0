#include <tandem/distributed/training/metrics/console.h>
#include <tandem/distributed/training/metrics/ranking.h>
#include <tandem/distributed/training/options/option_parser.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace tandem::distributed {
namespace {

// Reads one word of `words` as a number. Throws an Error if it is not a number.
template <class T, class Convert>
T take(std::istringstream& words, Convert convert) {
  std::string word;
  char* end = nullptr;
  words >> word;
  const auto value = convert(word.c_str(), &end);
  TANDEM_CHECK(!word.empty() && *end == '\0', "\"", words.str(), "\" is not a state of --keep-best");
  return static_cast<T>(value);
}

std::int64_t take_count(std::istringstream& words, std::int64_t least) {
  const auto count =
      take<std::int64_t>(words, [](const char* text, char** end) { return std::strtoll(text, end, 10); });
  TANDEM_CHECK(count >= least, "\"", words.str(), "\" is not a state of --keep-best");
  return count;
}

double take_value(std::istringstream& words) { return take<double>(words, std::strtod); }

}  // namespace

Ranking::Ranking(const std::string& wanted, std::int64_t places)
    : wanted_(wanted), most_(static_cast<std::size_t>(places)) {
  if (wanted.empty()) return;
  larger_is_better_ = wanted.starts_with("max:");
  if ((larger_is_better_ || wanted.starts_with("min:")) && wanted.size() > 4) name_ = wanted.substr(4);
  else
    throw UsageError("--keep-best " + wanted +
                     ": expected min:NAME or max:NAME, such as min:total_loss; --top-k says how many are kept");
}

const Metric* Ranking::find(const std::vector<Metric>& figures) const {
  for (const auto& metric : figures)
    if (metric.name == name_ && std::holds_alternative<double>(metric.value)) return &metric;
  return nullptr;
}

void Ranking::check(const std::vector<Metric>& figures) const {
  if (!is_on() || find(figures)) return;
  std::string names;
  for (const auto& metric : figures)
    if (std::holds_alternative<double>(metric.value)) names += (names.empty() ? "" : ", ") + metric.name;
  throw UsageError("--keep-best " + wanted_ + ": no metric has that name; the metrics are: " + names);
}

bool Ranking::consider(const std::vector<Metric>& figures, std::int64_t step) {
  if (!is_on()) return false;
  const Metric* const found = find(figures);
  if (!found) return false;
  kind_ = found->kind;
  const double value = std::get<double>(found->value);
  ++since_;
  if (!std::isfinite(value)) return false;
  const auto place =
      std::find_if(places_.begin(), places_.end(), [&](const Place& other) { return is_better(value, other.value); });
  if (place == places_.begin()) since_ = 0;
  if (place - places_.begin() >= static_cast<std::ptrdiff_t>(most_)) return false;
  places_.insert(place, {value, step});
  if (places_.size() > most_) places_.pop_back();
  return true;
}

std::set<std::int64_t> Ranking::kept_steps() const {
  std::set<std::int64_t> steps = kept_before_;
  for (const Place& place : places_) steps.insert(place.step);
  return steps;
}

bool Ranking::has_place(std::int64_t step) const {
  return std::ranges::any_of(places_, [step](const Place& place) { return place.step == step; });
}

void Ranking::lose(std::int64_t step, bool may_be_whole) {
  if (best_step() == step) since_ = 0;
  std::erase_if(places_, [step](const Place& place) { return place.step == step; });
  if (may_be_whole) kept_before_.insert(step);
  else kept_before_.erase(step);
}

std::set<std::int64_t> Ranking::others() const {
  std::set<std::int64_t> steps = kept_steps();
  if (is_on())
    for (const Place& place : places_) steps.erase(place.step);
  return steps;
}

// The text contains the best value, its step and since(), followed by the value and step of each of the other places.
std::string Ranking::state_text() const {
  std::string text = fmt::format("{:a} {} {}", places_.empty() ? 0.0 : places_[0].value, best_step(), since_);
  for (std::size_t i = 1; i < places_.size(); ++i) text += fmt::format(" {:a} {}", places_[i].value, places_[i].step);
  return text;
}

void Ranking::set_state(const std::string& text) {
  std::istringstream words(text);
  const double value = take_value(words);
  const std::int64_t step = take_count(words, -1), since = take_count(words, 0);
  std::vector<Place> places;
  if (step >= 0) places.push_back({value, step});
  while (!words.eof()) {
    const double next = take_value(words);
    places.push_back({next, take_count(words, 0)});
  }
  places_ = places;
  since_ = since;
}

void Ranking::go_on(const std::string& wanted, const std::string& state_text, const std::set<std::int64_t>& kept) {
  kept_before_ = kept;
  if (wanted.empty()) return;
  if (!is_on()) wanted_ = wanted;
  set_state(state_text);
  if (wanted_ != wanted) {
    places_.clear();
    since_ = 0;
  }
  if (is_on() && places_.size() > most_) places_.resize(most_);
  for (const Place& place : places_) kept_before_.erase(place.step);
}

std::string Ranking::text() const {
  if (places_.empty()) return "none, because no value was finite";
  return shown({{name_, places_[0].value, kind_}}) + " after " + counted(best_step(), "step");
}

}  // namespace tandem::distributed

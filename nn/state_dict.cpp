// Module::load_state_dict, and its error if names or shapes do not match.
#include <tandem/core/io/arrays_file.h>
#include <tandem/nn/module.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <sstream>

namespace tandem::nn {

namespace {

constexpr std::size_t most_lines = 20;
constexpr std::string_view count = "num_batches_tracked";

void list(std::ostream& out, const char* what, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out << "\n  " << lines.size() << ' ' << what << ':';
  for (std::size_t i = 0; i < std::min(lines.size(), most_lines); ++i) out << "\n    " << lines[i];
  if (lines.size() > most_lines) out << "\n    and " << lines.size() - most_lines << " more";
}

std::string with_shape(const std::string& name, const Array& array) {
  std::ostringstream out;
  out << name << ' ' << array.shape();
  return out.str();
}

bool ends_with_part(const std::string& name, const std::string& end) {
  return name.size() > end.size() && name.ends_with(end) && name[name.size() - end.size() - 1] == '.';
}

using Names = std::vector<std::string>;

// Searches `names` for a name that is a prefix followed by `end`. Returns the first such prefix for which
// explains(prefix) holds.
template <class F>
std::optional<std::string> find_prefix(const Names& names, const std::string& end, const F& explains) {
  for (const auto& name : names) {
    if (!ends_with_part(name, end)) continue;
    const auto prefix = name.substr(0, name.size() - end.size());
    if (explains(prefix)) return prefix;
  }
  return std::nullopt;
}

// Guesses the caller's mistake, such as a prefix before all names. Returns an empty string if names and shapes give no
// hint.
std::string guess(const Names& missing, const Names& unexpected) {
  if (unexpected.empty()) return {};
  const std::set<std::string> lookup(missing.begin(), missing.end());
  const auto is_missing = [&](const std::string& name) { return lookup.count(name) > 0; };
  for (const auto& name : missing) {
    const auto prefix = find_prefix(unexpected, name, [&](const std::string& p) {
      return std::all_of(unexpected.begin(), unexpected.end(),
                         [&](const auto& other) { return other.starts_with(p) && is_missing(other.substr(p.size())); });
    });
    if (!prefix) continue;
    return "every unexpected name is a missing name with the prefix \"" + *prefix +
           "\": remove the prefix, or load into the module that has these names";
  }
  const auto prefix = find_prefix(missing, unexpected[0], [&](const std::string& p) {
    return std::all_of(unexpected.begin(), unexpected.end(), [&](const auto& other) { return is_missing(p + other); });
  });
  if (!prefix) return {};
  return "the unexpected names belong to \"" + prefix->substr(0, prefix->size() - 1) +
         "\" here: load them into that module, or add \"" + *prefix + "\" before each of them";
}

bool is_equal(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype()) return false;
  const Array x = a.to(Device{}).contiguous(), y = b.to(Device{}).contiguous();
  return std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

// Throws an Error if two names of one array get different values.
void check_shared(const std::vector<NamedArray>& mine, const std::map<std::string, const Array*>& given) {
  std::map<const void*, const std::string*> first;
  for (const auto& [name, array] : mine) {
    if (array.numel() == 0 || given.count(name) == 0) continue;
    const auto [known, is_new] = first.emplace(array.raw(), &name);
    TANDEM_CHECK(is_new || is_equal(*given.at(*known->second), *given.at(name)), "load_state_dict: ", *known->second,
                 " and ", name, " are the same parameter here, but are given different values");
  }
}

}  // namespace

StateMismatch Module::load_state_dict(const std::vector<NamedArray>& state, bool strict) {
  auto mine = state_dict(), theirs = state;
  const auto is_mine = [&](const NamedArray& entry) {
    return std::any_of(mine.begin(), mine.end(), [&](const auto& own) { return own.name == entry.name; });
  };
  if (std::none_of(theirs.begin(), theirs.end(), is_mine)) {
    mine = without_wrappers(std::move(mine));
    theirs = without_wrappers(std::move(theirs));
  }
  std::map<std::string, const Array*> given;
  for (const auto& [name, array] : theirs) {
    TANDEM_CHECK(array.defined(), "load_state_dict: ", name, " is an undefined Array");
    TANDEM_CHECK(given.emplace(name, &array).second, "load_state_dict: ", name, " is given twice");
  }
  std::vector<Array> counts;
  StateMismatch mismatch;
  Names other_shapes;
  auto left = given;
  for (const auto& [name, array] : mine) {
    const auto found = given.find(name);
    if (found == given.end()) {
      // A batch norm that PyTorch saved before 2019 has no batch count. As in PyTorch, the count is then 0.
      const auto stem = name.size() - std::min(name.size(), count.size());
      if (name.ends_with(count) && given.contains(name.substr(0, stem) + "running_mean")) {
        counts.push_back(array);
        continue;
      }
      mismatch.missing.push_back(with_shape(name, array));
      continue;
    }
    if (found->second->shape() != array.shape()) {
      std::ostringstream line;
      line << name << ": got " << found->second->shape() << ", but this model has " << array.shape();
      other_shapes.push_back(line.str());
    }
    left.erase(name);
  }
  for (const auto& [name, array] : left) {
    mismatch.unexpected.push_back(with_shape(name, *array));
  }
  if (!other_shapes.empty() || (strict && !(mismatch.missing.empty() && mismatch.unexpected.empty()))) {
    std::ostringstream text;
    text << "load_state_dict: the state does not match " << class_name() << ":";
    list(text, "of another shape", other_shapes);
    list(text, "missing", mismatch.missing);
    list(text, "unexpected", mismatch.unexpected);
    const std::string hint = guess(mismatch.missing, mismatch.unexpected);
    if (!hint.empty()) text << "\n  " << hint;
    else if (other_shapes.empty())
      text << "\n  in your own program, load_state_dict(state, false) loads the tensors that fit";
    throw Error(text.str());
  }
  check_shared(mine, given);
  for (auto& array : counts) array.fill(0);
  for (auto& [name, array] : mine)
    if (const auto found = given.find(name); found != given.end()) array.copy_from(*found->second);
  return mismatch;
}

}  // namespace tandem::nn

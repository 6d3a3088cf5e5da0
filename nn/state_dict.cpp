// Module::load_state_dict, and what it says when the names or shapes do not fit.
#include <tandem/nn/module.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tandem::nn {

namespace {

constexpr std::size_t most_lines = 20;

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

// "module." where each of `longer` is that, and then one of `shorter`.
std::optional<std::string> common_prefix(const Names& longer, const Names& shorter) {
  if (longer.empty() || shorter.empty()) return std::nullopt;
  for (const auto& end : shorter) {
    if (!ends_with_part(longer[0], end)) continue;
    const auto prefix = longer[0].substr(0, longer[0].size() - end.size());
    const bool explains_all = std::all_of(longer.begin(), longer.end(), [&](const auto& name) {
      return name.starts_with(prefix) &&
             std::find(shorter.begin(), shorter.end(), name.substr(prefix.size())) != shorter.end();
    });
    if (explains_all) return prefix;
  }
  return std::nullopt;
}

// What the caller may have meant, where the names tell.
std::string guess(const Names& missing, const Names& unexpected) {
  if (const auto prefix = common_prefix(unexpected, missing)) {
    std::string text = "every unexpected name is a missing one behind \"" + *prefix + "\"";
    if (*prefix == "module.") text += ", which PyTorch's DistributedDataParallel puts there";
    return text + ": take it off, or load into the module that has these names";
  }
  if (const auto prefix = common_prefix(missing, unexpected))
    return "the names given are those of \"" + prefix->substr(0, prefix->size() - 1) +
           "\" here: load them into that module, or put \"" + *prefix + "\" before each";
  return {};
}

}  // namespace

StateMismatch Module::load_state_dict(const std::vector<NamedArray>& state, bool strict) {
  std::map<std::string, const Array*> given;
  for (const auto& [name, array] : state) given[name] = &array;
  auto mine = state_dict();
  StateMismatch mismatch;
  Names missing, unexpected, other_shapes;
  auto left = given;
  for (const auto& [name, array] : mine) {
    const auto found = given.find(name);
    if (found == given.end()) {
      missing.push_back(name);
      mismatch.missing.push_back(with_shape(name, array));
      continue;
    }
    if (found->second->shape() != array.shape()) {
      std::ostringstream line;
      line << name << ": given " << found->second->shape() << ", this model has " << array.shape();
      other_shapes.push_back(line.str());
    }
    left.erase(name);
  }
  for (const auto& [name, array] : left) {
    unexpected.push_back(name);
    mismatch.unexpected.push_back(with_shape(name, *array));
  }
  if (!other_shapes.empty() || (strict && !(missing.empty() && unexpected.empty()))) {
    std::ostringstream text;
    text << "load_state_dict: this is the state of another model than " << class_name() << ":";
    list(text, "of another shape", other_shapes);
    list(text, "missing", mismatch.missing);
    list(text, "unexpected", mismatch.unexpected);
    const std::string hint = guess(missing, unexpected);
    if (!hint.empty()) text << "\n  " << hint;
    else if (other_shapes.empty()) text << "\n  strict = false loads the rest";
    throw Error(text.str());
  }
  for (auto& [name, array] : mine)
    if (const auto found = given.find(name); found != given.end()) array.copy_from(*found->second);
  return mismatch;
}

}  // namespace tandem::nn

#include <tandem/core/base/utf8.h>
#include <tandem/distributed/training/options/given_options.h>
#include <tandem/distributed/training/options/option_parser.h>

#include <set>
#include <sstream>

namespace tandem::distributed {
namespace {

// Options that say where a training runs and what it writes, and options for which the Trainer itself reports a change.
const std::set<std::string> without_effect = {
    "--device",        "--backend",    "--init-method", "--checkpoint-shards", "--local-rank", "--timeout",
    "--interface",     "--open-store", "--threads",     "--workers",           "--max-steps",  "--max-time",
    "--bucket-cap-mb", "--checkpoint", "--save-every",  "--save-every-steps",  "--keep-last",  "--resume",
    "--save",          "--metrics",    "--log-dir",     "--log-every",         "--eval-every", "--eval-every-steps",
    "--patience",      "--top-k",      "--no-graph",    "--find-lr",           "--profile",    "--profile-steps",
    "--quiet",         "--data",       "--seed",        "--batch-size",        "--accumulate"};

}  // namespace

void check_same_on_all_ranks(const GivenOptions& given, ProcessGroup& group) {
  // Options about output may differ, because only rank 0 writes. The rest of this list may differ because hosts differ.
  // All other options must be equal.
  static const std::set<std::string> may_differ = {
      "--device",  "--init-method", "--local-rank", "--interface", "--open-store", "--threads", "--workers", "--data",
      "--predict", "--metrics",     "--log-dir",    "--save",      "--find-lr",    "--profile", "--quiet"};
  std::string mine;
  for (const auto& [name, value] : given)
    if (!may_differ.contains(name)) mine += name + ' ' + value + '\n';
  const auto all = group.all_gather_strings(mine, "options");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto lines_not_in = [](const std::string& text, const std::string& other) {
      std::string lines;
      std::istringstream stream(text);
      for (std::string line; std::getline(stream, line);)
        if (('\n' + other).find('\n' + line + '\n') == std::string::npos) lines += (lines.empty() ? "" : ", ") + line;
      return lines.empty() ? "no other options" : lines;
    };
    throw UsageError("the ranks were given different options: rank " + std::to_string(rank) + " has " +
                     lines_not_in(all[rank], all[0]) + "; rank 0 has " + lines_not_in(all[0], all[rank]));
  }
}

std::string text_of(const GivenOptions& given) {
  std::string text;
  for (const auto& [name, value] : given) text += name + '=' + utf8_escaped(value) + '\n';
  return text;
}

std::vector<std::string> changes_since(const std::string& earlier, const GivenOptions& given) {
  GivenOptions before, after;
  std::istringstream lines(earlier);
  for (std::string line; std::getline(lines, line);)
    if (const auto end = line.find('='); end != std::string::npos) before[line.substr(0, end)] = line.substr(end + 1);
  for (const auto& [name, value] : given) after[name] = utf8_escaped(value);
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& name, const std::string* then, const std::string* now) {
    if (without_effect.contains(name) || (then && now && *then == *now)) return;
    const auto words = [&](const std::string* value) {
      return value ? "with " + name + " " + *value : "without " + name;
    };
    changes.push_back("the checkpoint was written " + words(then) + ", continuing " + words(now));
  };
  for (const auto& [name, value] : before) {
    const auto now = after.find(name);
    compare(name, &value, now == after.end() ? nullptr : &now->second);
  }
  for (const auto& [name, value] : after)
    if (!before.contains(name)) compare(name, nullptr, &value);
  return changes;
}

}  // namespace tandem::distributed

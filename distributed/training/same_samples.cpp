#include <tandem/core/io/crc32.h>
#include <tandem/data/epoch.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/job/together.h>
#include <tandem/distributed/system/host_identity.h>
#include <tandem/distributed/training/same_samples.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <sstream>

namespace tandem::distributed {
namespace {

// Returns a word that identifies an array: "=" and a checksum for whole numbers, "~" and the mean magnitude for others.
std::string word_of(const Array& array) {
  if (!array.defined()) return "=";
  const Array here = array.to(Device{}).contiguous();
  const auto bytes = static_cast<std::size_t>(here.numel()) * size_of(here.dtype());
  if (!is_floating(here.dtype()) && here.dtype() != DType::u8)
    return fmt::format("={:08x}", crc32_of(here.raw(), bytes));
  double sum = 0;
  for (const double number : here.to(DType::f64).to_vector<double>()) sum += std::abs(number);
  return fmt::format("~{:.9g}", sum / static_cast<double>(std::max<std::int64_t>(here.numel(), 1)));
}

bool are_alike(const std::string& a, const std::string& b) {
  constexpr double tolerance = 0.02;
  if (a == b || a[0] != '~' || b[0] != '~') return a == b;
  const double x = std::stod(a.substr(1)), y = std::stod(b.substr(1));
  return std::abs(x - y) <= tolerance * std::max(x, y);
}

// Words for some samples of a data set, separated by spaces. Empty if they can't be compared.
struct Digest {
  std::int64_t count = 0;
  std::string inputs;
  std::string targets;
};

// Returns the input and the target of a sample in an epoch. Random numbers of a sample depend on the epoch, so random
// samples differ between two epochs.
std::array<Array, 2> look_at(const data::Dataset& dataset, std::int64_t index, std::int64_t epoch) {
  const data::EpochScope scope({.number = epoch, .seed = static_cast<std::uint64_t>(epoch)});
  const data::SampleGenerator generator(index);
  const data::Batch batch = dataset.get({&index, 1});
  return {batch.inputs, batch.targets};
}

Digest digest_of(const data::Dataset& dataset) {
  constexpr std::int64_t enough_bytes = 1 << 20, fewest = 3, most = 256;
  std::array<std::string, 2> words;
  std::array<bool, 2> is_random{};
  const std::int64_t size = dataset.size();
  std::int64_t count = std::min(fewest, size);
  try {
    for (std::int64_t i = 0; i < count && !(is_random[0] && is_random[1]); ++i) {
      const std::int64_t index = i == 0 ? 0 : i * (size - 1) / (count - 1);
      const auto once = look_at(dataset, index, 0), again = look_at(dataset, index, 1);
      for (std::size_t k = 0; k < 2; ++k) {
        const std::string word = word_of(once[k]);
        is_random[k] |= word != word_of(again[k]);
        words[k] += word + ' ';
      }
      if (i > 0) continue;
      const std::int64_t bytes = once[0].numel() * static_cast<std::int64_t>(size_of(once[0].dtype()));
      count = std::min(size, std::clamp(enough_bytes / std::max<std::int64_t>(bytes, 1), fewest, most));
    }
  } catch (const std::exception&) {
    return {};  // the training reports the reason when it reaches that sample
  }
  return {count, is_random[0] ? "" : words[0], is_random[1] ? "" : words[1]};
}

// A rank's description of its data set.
struct RankData {
  std::string host, size, count, inputs, targets;
};

bool are_all_alike(const std::string& mine, const std::string& theirs, bool first_alone) {
  if (mine.empty() || theirs.empty()) return true;
  using Words = std::istream_iterator<std::string>;
  std::istringstream a(mine), b(theirs);
  if (first_alone) return are_alike(*Words(a), *Words(b));
  return std::equal(Words(a), Words(), Words(b), Words(), are_alike);
}

// Returns "ranks 0 and 2 on host a have 60000; rank 1 on host b has 10000".
std::string sizes_of(const std::vector<RankData>& ranks) {
  std::vector<std::vector<int>> groups;  // of one host and size, the lowest rank first
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    const auto like = [&](const auto& group) {
      return ranks[group[0]].host == ranks[r].host && ranks[group[0]].size == ranks[r].size;
    };
    if (const auto found = std::ranges::find_if(groups, like); found != groups.end()) found->push_back(r);
    else groups.push_back({r});
  }
  std::vector<std::string> parts;
  for (const auto& group : groups)
    parts.push_back(fmt::format("{} on host {} {} {}", rank_list(group), ranks[group[0]].host,
                                group.size() == 1 ? "has" : "have", ranks[group[0]].size));
  return fmt::format("{}", fmt::join(parts, "; "));
}

// Returns the first rank that differs from an earlier rank, and a text about the difference, or -1 if no rank differs.
std::pair<int, std::string> difference_of(const std::vector<RankData>& ranks) {
  for (std::size_t r = 1; r < ranks.size(); ++r)
    if (ranks[r].size != ranks[0].size) return {static_cast<int>(r), sizes_of(ranks)};
  for (const auto& [part, name] : {std::pair(&RankData::inputs, "inputs"), {&RankData::targets, "targets"}}) {
    // Random samples have no words, so skip ranks without words.
    const auto first = std::ranges::find_if(ranks, [part = part](const auto& rank) { return !(rank.*part).empty(); });
    for (auto other = first; other != ranks.end(); ++other) {
      // If inputs have random sizes, two ranks may have looked at different numbers of samples, and therefore at
      // different ones. Only sample 0 is common to both, so compare only that one.
      const bool first_alone = part == &RankData::targets && other->count != first->count;
      if (!are_all_alike(*first.*part, *other.*part, first_alone))
        return {static_cast<int>(other - ranks.begin()),
                fmt::format("all have {}, but the {} of rank {} on host {} differ from those of rank {} on host {}",
                            first->size, name, other - ranks.begin(), other->host, first - ranks.begin(), first->host)};
    }
  }
  return {-1, ""};
}

}  // namespace

void check_same_samples(ProcessGroup& group, const std::string& what, const std::vector<std::string>& names,
                        const std::function<std::string(const std::string& name)>& explain) {
  // Rank 0 sends its names only if the checksums differ. Names of files contain no NUL.
  std::string mine;
  for (const auto& name : names) mine += name + '\0';
  const std::string digest = std::to_string(names.size()) + ' ' + std::to_string(crc32_of(mine.data(), mine.size()));
  const auto digests = group.all_gather_strings(digest, "the samples of " + what);
  if (std::adjacent_find(digests.begin(), digests.end(), std::not_equal_to<>()) == digests.end()) return;
  const std::string first = group.broadcast_string(mine, 0, "the names of " + what);
  const std::string rank_0 = group.broadcast_string(host_name(), 0, "the host of rank 0");
  run_together(group, [&] {
    if (digest == digests[0]) return;
    std::vector<std::string> others;
    std::istringstream parts(first);
    for (std::string name; std::getline(parts, name, '\0');) others.push_back(name);
    std::size_t i = 0;
    while (i < names.size() && i < others.size() && names[i] == others[i]) ++i;
    const auto at = [i](const std::vector<std::string>& list) {
      return i < list.size() ? "'" + list[i] + "'" : "none";
    };
    std::string reason = explain && i < others.size() ? explain(others[i]) : "";
    if (!reason.empty()) reason = "; '" + others[i] + "' was left out here: " + reason;
    detail::fail("the processes do not have the same samples of ", what, ": rank ", group.rank(), " on host ",
                 host_name(), " has ", names.size(), ", rank 0 on host ", rank_0, " has ", others.size(),
                 ". The first difference is at sample ", i, ": ", at(names), " and ", at(others), reason,
                 ". Copy the files from one host to the other");
  });
}

void check_same_samples(ProcessGroup& group, const std::string& what, const data::Dataset& dataset) {
  if (group.size() == 1) return;
  const Digest digest = digest_of(dataset);
  const auto texts = group.all_gather_strings(
      fmt::format("{}\n{}\n{}\n{}\n{}\n", host_name(), dataset.size(), digest.count, digest.inputs, digest.targets),
      "the " + what);
  std::vector<RankData> ranks;
  for (const auto& text : texts) {
    std::istringstream lines(text);
    RankData data;
    for (auto* line : {&data.host, &data.size, &data.count, &data.inputs, &data.targets}) std::getline(lines, *line);
    ranks.push_back(std::move(data));
  }
  // All ranks find the same difference, and the rank that differs reports it.
  const auto [rank, text] = difference_of(ranks);
  if (rank < 0) return;
  run_together(group, [&, rank = rank, &text = text] {
    TANDEM_CHECK(group.rank() != rank, "the ranks do not have the same ", what, ": ", text,
                 ". Give all of them the same files. Ranks with their own data need a Loader without a shard");
  });
}

}  // namespace tandem::distributed

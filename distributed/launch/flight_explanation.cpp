#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/operation.h>
#include <tandem/distributed/launch/flight_explanation.h>
#include <tandem/distributed/launch/flight_record.h>
#include <tandem/distributed/launch/launch_options.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace tandem::distributed {
namespace {

namespace fs = std::filesystem;
using FlightState = FlightEntry::State;

std::string what(const FlightEntry& entry) {
  Operation operation{static_cast<Operation::Kind>(entry.kind), text_of(entry.name)};
  return operation.what();
}

std::string signature(const FlightEntry& entry) {
  const auto ndim = std::min<int>(entry.ndim, Shape::max_ndim);
  return Operation::signature(static_cast<Operation::Kind>(entry.kind), static_cast<ReduceOp>(entry.reduce_op),
                              static_cast<DType>(entry.dtype), Shape(std::span(entry.shape, ndim)), entry.root);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name.size() > 5 && name.starts_with("rank-") && name.find_first_not_of("0123456789", 5) == std::string::npos)
      files.push_back(entry.path());
  }
  return files;
}

fs::path find_folder(const fs::path& given) {
  TANDEM_CHECK(fs::is_directory(given), "--explain ", given.string(), ": there is no such folder");
  if (!files_in(given).empty()) return given;
  fs::path newest;
  fs::file_time_type newest_time;
  for (const auto& entry : fs::recursive_directory_iterator(given, fs::directory_options::skip_permission_denied)) {
    if (!entry.is_directory()) continue;
    for (const auto& file : files_in(entry.path())) {
      const auto time = fs::last_write_time(file);
      if (newest.empty() || time > newest_time) {
        newest = entry.path();
        newest_time = time;
      }
    }
  }
  TANDEM_CHECK(!newest.empty(), "--explain ", given.string(),
               ": neither the folder nor its subfolders have flight records (files rank-0, rank-1, ...)");
  return newest;
}

// Returns "12:00:03.123", in local time.
std::string clock_text(std::int64_t utc) {
  const std::time_t seconds = static_cast<std::time_t>(utc / 1'000'000'000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return fmt::format("{}.{:03d}", text, utc / 1'000'000 % 1000);
}

// The group that the text describes, and its ranks that left a file.
struct Scene {
  std::string group;
  std::vector<const Flight*> ranks;
  std::uint64_t front = 0;  // the last collective that any rank has reached

  const Track& track(const Flight& flight) const { return flight.tracks.at(group); }
  const FlightEntry* entry(const Flight& flight, std::uint64_t sequence) const {
    const auto& entries = track(flight).entries;
    const auto found = entries.find(sequence);
    return found == entries.end() ? nullptr : &found->second;
  }
};

Scene scene_of(const std::vector<Flight>& flights, const std::string& group) {
  Scene scene{group, {}};
  for (const auto& flight : flights) {
    if (!flight.tracks.contains(group)) continue;
    scene.ranks.push_back(&flight);
    scene.front = std::max(scene.front, flight.tracks.at(group).reached);
  }
  return scene;
}

// Chooses the group in which a rank has waited longest for a collective that is not done. If no rank waits, chooses the
// group of the latest collective.
Scene choose_scene(const std::vector<Flight>& flights) {
  std::set<std::string> groups;
  for (const auto& flight : flights) {
    for (const auto& [name, track] : flight.tracks) groups.insert(name);
  }
  Scene best;
  std::pair<bool, std::int64_t> best_rating{false, std::numeric_limits<std::int64_t>::min()};
  for (const auto& group : groups) {
    const auto scene = scene_of(flights, group);
    for (const auto* flight : scene.ranks) {
      const auto& track = scene.track(*flight);
      const auto* entry = scene.entry(*flight, track.reached);
      if (!entry) continue;
      const bool waits = entry->state != FlightState::done;
      const auto begun = flight->utc(entry->running);
      const std::pair rating{waits, waits ? -begun : begun};
      if (best.group.empty() || rating > best_rating) {
        best = scene;
        best_rating = rating;
      }
    }
  }
  return best;
}

std::int64_t last_life(const Flight& flight) {
  auto last = flight.header.alive;
  for (const auto& [name, track] : flight.tracks) {
    for (const auto& [sequence, entry] : track.entries) last = std::max({last, entry.running, entry.ended});
  }
  return flight.utc(last);
}

// Returns "number 42, all_reduce 'gradient bucket 2' (all_reduce(mean) of f32 (1024))".
std::string full_name(const FlightEntry& entry) {
  return fmt::format("number {}, {} ({})", entry.sequence, what(entry), signature(entry));
}

std::string where_text(const Scene& scene, const Flight& flight) {
  const auto& track = scene.track(flight);
  const auto* entry = scene.entry(flight, track.reached);
  std::string text;
  if (!entry) {
    text = "it has taken part in no collective of the group";
  } else if (entry->state == FlightState::done) {
    text = fmt::format("it finished {} at {}", full_name(*entry), clock_text(flight.utc(entry->ended)));
    const auto* next = scene.entry(flight, track.reached + 1);
    text += next ? fmt::format(", and has {} in its queue", what(*next)) : ", and has called nothing since";
  } else {
    text = fmt::format("it has been in {} since {}", full_name(*entry), clock_text(flight.utc(entry->running)));
  }
  return text;
}

std::vector<int> numbers(const std::vector<const Flight*>& flights) {
  std::vector<int> ranks;
  for (const auto* flight : flights) ranks.push_back(flight->rank());
  return ranks;
}

// Returns a sentence if ranks run different operations under the same number. Otherwise returns an empty string.
std::string difference(const Scene& scene) {
  std::map<std::uint64_t, std::pair<const Flight*, const FlightEntry*>> first;
  std::optional<std::uint64_t> least;
  std::string text;
  for (const auto* flight : scene.ranks) {
    for (const auto& [sequence, entry] : scene.track(*flight).entries) {
      const auto [known, is_new] = first.emplace(sequence, std::pair(flight, &entry));
      if (is_new || signature(*known->second.second) == signature(entry) || (least && *least <= sequence)) continue;
      least = sequence;
      text = fmt::format("the ranks do not run the same operations: number {} is {} ({}) on {} and {} ({}) on {}",
                         sequence, what(*known->second.second), signature(*known->second.second),
                         known->second.first->name(), what(entry), signature(entry), flight->name());
    }
  }
  return text;
}

// Returns the three lines of the verdict.
std::string verdict(const Scene& scene) {
  std::vector<const Flight*> behind, waiting;
  for (const auto* flight : scene.ranks) {
    const auto* entry = scene.entry(*flight, scene.front);
    if (scene.track(*flight).reached < scene.front) behind.push_back(flight);
    else if (entry && entry->state != FlightState::done) waiting.push_back(flight);
  }
  std::string first, second;
  const auto differs = difference(scene);
  if (!differs.empty()) {
    first = differs;
  } else if (!behind.empty()) {
    // Choose the rank that is furthest behind, and of several such ranks, the rank that gave its last sign of life
    // first.
    const auto* last = *std::min_element(behind.begin(), behind.end(), [&](const Flight* a, const Flight* b) {
      return std::pair(scene.track(*a).reached, last_life(*a)) < std::pair(scene.track(*b).reached, last_life(*b));
    });
    first = fmt::format("{} is behind in group '{}': {}", last->name(), scene.group, where_text(scene, *last));
    if (behind.size() > 1)
      first += fmt::format("; {} have not reached number {} either", rank_list([&] {
                             auto others = numbers(behind);
                             std::erase(others, last->rank());
                             return others;
                           }()),
                           scene.front);
  } else if (!waiting.empty()) {
    first =
        fmt::format("no rank is behind in group '{}': all that left a file reached number {}, and {} in it",
                    scene.group, scene.front, waiting.size() == 1 ? "one is" : std::to_string(waiting.size()) + " are");
  } else {
    first = fmt::format("no rank is behind in group '{}': all finished number {}", scene.group, scene.front);
  }
  if (waiting.empty()) {
    second = "no rank waits in a collective";
  } else {
    const auto* earliest = *std::min_element(waiting.begin(), waiting.end(), [&](const Flight* a, const Flight* b) {
      return a->utc(scene.entry(*a, scene.front)->running) < b->utc(scene.entry(*b, scene.front)->running);
    });
    const auto& entry = *scene.entry(*earliest, scene.front);
    const auto until = entry.ended ? earliest->utc(entry.ended) : last_life(*earliest);
    second = fmt::format("{} waited in {} from {} on, for {}", rank_list(numbers(waiting)), full_name(entry),
                         clock_text(earliest->utc(entry.running)), span_text(until - earliest->utc(entry.running)));
  }

  // The third line: the rank with the earliest last sign of life, and a failure that a rank reported.
  const auto& subject = behind.empty() ? scene.ranks : behind;
  const auto* silent = *std::min_element(
      subject.begin(), subject.end(), [](const Flight* a, const Flight* b) { return last_life(*a) < last_life(*b); });
  std::int64_t latest = 0;
  for (const auto* flight : scene.ranks) latest = std::max(latest, last_life(*flight));
  auto third = fmt::format("rank {} {} at {}", silent->rank(),
                           silent->header.has_left ? "left its job cleanly" : "gave its last sign of life",
                           clock_text(last_life(*silent)));
  // Signs of life come twice a second.
  const auto late = latest - last_life(*silent);
  third += late > 1'500'000'000 ? fmt::format(", {} before the last one of another rank", span_text(late))
                                : ", as the others did";
  for (const auto* flight : scene.ranks) {
    const auto failure = text_of(flight->header.failure);
    if (failure.empty()) continue;
    third += fmt::format("; rank {} said: {}", flight->rank(), failure);
    break;
  }
  return first + "\n" + second + "\n" + third + "\n";
}

// Returns a timeline of the last ten collectives, with one row for each rank. A column is a slice of time: '=' in a
// collective, '.' between two, '>' in one that is not done, '!' in one that failed. A wait that continues is truncated,
// and its length is printed after the row.
std::string timeline(const Scene& scene) {
  constexpr int columns = 64, collectives = 10;
  constexpr std::size_t most_rows = 32;
  const auto first = scene.front > collectives ? scene.front - collectives + 1 : 1;
  std::int64_t from = std::numeric_limits<std::int64_t>::max(), reached = 0, until = 0;
  for (const auto* flight : scene.ranks) {
    for (const auto& [sequence, entry] : scene.track(*flight).entries) {
      if (sequence < first || entry.running == 0) continue;
      from = std::min(from, flight->utc(entry.running));
      reached = std::max(reached, flight->utc(entry.running));
      if (entry.state == FlightState::done) reached = std::max(reached, flight->utc(entry.ended));
    }
  }
  if (reached <= from) return "";
  until = reached + (reached - from) / 6;
  const auto column = [&](std::int64_t time) {
    const auto share = static_cast<double>(time - from) / static_cast<double>(until - from);
    return static_cast<int>(std::clamp(std::floor(share * columns), 0.0, columns - 1.0));
  };
  auto text =
      fmt::format("\nThe last collectives of group '{}', numbers {} to {}; the rows begin at {} and cover {}:\n",
                  scene.group, first, scene.front, clock_text(from), span_text(until - from));
  for (std::size_t i = 0; i < std::min(scene.ranks.size(), most_rows); ++i) {
    const auto& flight = *scene.ranks[i];
    std::string bar(columns, ' '), remark;
    const auto seen = last_life(flight);
    for (int c = 0; c <= column(seen); ++c) bar[static_cast<std::size_t>(c)] = '.';
    for (const auto& [sequence, entry] : scene.track(flight).entries) {
      if (sequence < first || entry.running == 0) continue;
      const auto begin = flight.utc(entry.running), end = entry.ended ? flight.utc(entry.ended) : seen;
      const char mark = entry.state == FlightState::done ? '=' : entry.state == FlightState::failed ? '!' : '>';
      for (int c = column(begin); c <= column(end); ++c) bar[static_cast<std::size_t>(c)] = mark;
      if (entry.state != FlightState::done) {
        remark = fmt::format(" {} {} for {}", entry.state == FlightState::failed ? "failed, in number" : "in number",
                             sequence, span_text(end - begin));
      }
    }
    text += fmt::format("  rank {:<5d}{}{}\n", flight.rank(), bar, remark);
  }
  if (scene.ranks.size() > most_rows) text += fmt::format("  and {} more ranks\n", scene.ranks.size() - most_rows);
  return text + "  (= in a collective, . between two, > in one that is not done, ! in one that failed)\n";
}

}  // namespace

std::string explain_flight(const fs::path& given) {
  const auto folder = find_folder(given);
  std::string remarks;
  if (folder != given) remarks += "reading the records in " + folder.string() + "\n";
  std::vector<Flight> flights;
  for (const auto& path : files_in(folder)) {
    try {
      flights.push_back(read_flight(path));
    } catch (const Error& error) {
      remarks += path.string() + " " + error.what() + ": left out\n";
    }
  }
  TANDEM_CHECK(!flights.empty(), "--explain ", given.string(), ": no flight record there can be read\n", remarks);

  const auto newest = std::max_element(flights.begin(), flights.end(), [](const Flight& a, const Flight& b) {
    return a.header.made_utc < b.header.made_utc;
  });
  const auto job = text_of(newest->header.job);
  const int world_size = newest->header.world_size;
  std::erase_if(flights, [&](const Flight& flight) {
    if (text_of(flight.header.job) == job) return false;
    remarks += fmt::format("the file of rank {} is from another generation, which began at {}: left out\n",
                           flight.rank(), clock_text(flight.header.made_utc));
    return true;
  });
  std::sort(flights.begin(), flights.end(), [](const Flight& a, const Flight& b) { return a.rank() < b.rank(); });
  remarks += align_clocks(flights);
  std::vector<int> missing;
  for (int r = 0; r < world_size; ++r) {
    if (std::none_of(flights.begin(), flights.end(), [&](const Flight& f) { return f.rank() == r; }))
      missing.push_back(r);
  }
  if (!missing.empty()) {
    remarks += fmt::format("there is no file for {} of {} (on another host?): {} be the one that is behind\n",
                           rank_list(missing), world_size, missing.size() == 1 ? "it may" : "one of them may");
  }
  for (const auto& flight : flights) {
    if (flight.torn)
      remarks += fmt::format("rank {} ended while it wrote {} of its entries\n", flight.rank(), flight.torn);
    if (flight.header.groups_left_out) {
      remarks += fmt::format("rank {} made {} groups more than a record has room for\n", flight.rank(),
                             flight.header.groups_left_out);
    }
  }
  const auto scene = choose_scene(flights);
  if (scene.group.empty()) {
    return fmt::format("no rank took part in a collective: {} left files, the last sign of life is of {}\n",
                       flights.size(),
                       clock_text(last_life(*std::max_element(
                           flights.begin(), flights.end(),
                           [](const Flight& a, const Flight& b) { return last_life(a) < last_life(b); })))) +
           remarks;
  }
  return verdict(scene) + remarks + timeline(scene);
}

}  // namespace tandem::distributed

namespace tandem {

void add_flight_explanation() {
  distributed::launch_questions.add(
      {"--explain", "FOLDER",
       "start nothing; read the flight records in FOLDER, and say which rank is behind and what the others wait for",
       [](const std::string& folder) { return distributed::explain_flight(folder); }});
}

}  // namespace tandem

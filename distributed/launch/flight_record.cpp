#include <tandem/core/base/check.h>
#include <tandem/core/base/shape.h>
#include <tandem/distributed/groups/operation.h>
#include <tandem/distributed/launch/flight_record.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
using FlightState = FlightEntry::State;

bool is_plausible_time(std::int64_t nanoseconds) { return nanoseconds >= 0 && nanoseconds < std::int64_t{1} << 61; }

bool is_plausible(const FlightEntry& entry) {
  return is_plausible_time(entry.started) && is_plausible_time(entry.running) && is_plausible_time(entry.ended) &&
         entry.kind <= static_cast<int>(Operation::Kind::receive) && entry.dtype <= static_cast<int>(DType::boolean) &&
         entry.reduce_op <= static_cast<int>(ReduceOp::product) && entry.state <= FlightState::failed &&
         entry.ndim <= Shape::max_ndim;
}

// Returns whether a rank can end this operation only after all ranks have reached it.
bool waits_for_all(const FlightEntry& entry) {
  switch (static_cast<Kind>(entry.kind)) {
    case Kind::all_reduce:
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_to_all:
    case Kind::barrier: return entry.state == FlightState::done && entry.running != 0 && entry.ended != 0;
    default: return false;
  }
}

// The bounds of the time by which one host's clock is ahead of another's, in nanoseconds.
struct ClockDifference {
  // Ten years. Larger values come from damaged files. The limit keeps sums of times from overflowing.
  static constexpr std::int64_t limit = std::int64_t{10} * 365 * 24 * 3600 * 1'000'000'000;
  std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();

  bool is_known() const { return least > -limit && most < limit && least <= most; }
  std::int64_t middle() const { return least + (most - least) / 2; }
};

void narrow(ClockDifference& difference, const Flight& first, const Flight& other) {
  for (const auto& [group, track] : other.tracks) {
    const auto same = first.tracks.find(group);
    if (same == first.tracks.end()) continue;
    for (const auto& [sequence, theirs] : track.entries) {
      const auto found = same->second.entries.find(sequence);
      if (found == same->second.entries.end() || !waits_for_all(theirs) || !waits_for_all(found->second)) continue;
      const auto& ours = found->second;
      difference.least = std::max(difference.least, other.utc(theirs.running) - first.utc(ours.ended));
      difference.most = std::min(difference.most, other.utc(theirs.ended) - first.utc(ours.running));
    }
  }
}

}  // namespace

std::string span_text(std::int64_t nanoseconds) {
  return fmt::format("{:.3f} s", static_cast<double>(nanoseconds) / 1e9);
}

std::string Flight::host() const { return text_of(header.host); }

std::string Flight::name() const { return fmt::format("rank {} ({}, pid {})", header.rank, host(), header.pid); }

Flight read_flight(const std::filesystem::path& path) {
  std::error_code error;
  TANDEM_CHECK(std::filesystem::is_regular_file(path, error), "is not a regular file");
  std::ifstream file(path, std::ios::binary);
  Flight flight;
  auto& header = flight.header;
  TANDEM_CHECK(file.read(reinterpret_cast<char*>(&header), sizeof header), "is too short for a flight record");
  TANDEM_CHECK(std::memcmp(header.magic, FlightHeader::right_magic, sizeof header.magic) == 0,
               "is not a flight record");
  TANDEM_CHECK(header.version == FlightHeader::right_version, "has version ", header.version,
               " of the format, but this program reads version ", FlightHeader::right_version);
  TANDEM_CHECK(header.header_bytes == sizeof header && header.entry_bytes == sizeof(FlightEntry) &&
                   header.capacity > 0 && header.capacity <= 1'000'000 && header.group_count <= header.most_groups &&
                   header.rank >= 0 && header.rank < header.world_size && header.world_size <= 1'000'000 &&
                   is_plausible_time(header.made_utc) && is_plausible_time(header.made_steady) &&
                   is_plausible_time(header.alive),
               "is damaged: its header is invalid");
  for (std::uint32_t i = 0; i < header.capacity; ++i) {
    FlightEntry entry;
    TANDEM_CHECK(file.read(reinterpret_cast<char*>(&entry), sizeof entry), "is truncated after ", i, " of ",
                 header.capacity, " entries");
    if (entry.number == 0) {
      flight.torn += header.count > i;
      continue;
    }
    TANDEM_CHECK((entry.number - 1) % header.capacity == i && entry.group < header.group_count && is_plausible(entry),
                 "is damaged: entry ", i, " is invalid");
    if (entry.sequence == 0) continue;
    auto& track = flight.tracks[text_of(header.groups[entry.group].name)];
    track.entries[entry.sequence] = entry;
    if (entry.state != FlightState::started && entry.running != 0)
      track.reached = std::max(track.reached, entry.sequence);
    if (entry.state == FlightState::done) track.finished = std::max(track.finished, entry.sequence);
  }
  for (std::uint32_t g = 0; g < header.group_count; ++g) flight.tracks[text_of(header.groups[g].name)];
  return flight;
}

std::string align_clocks(std::vector<Flight>& flights) {
  std::string text, unknown;
  std::int64_t widest = -1;
  if (flights.empty()) return text;
  const auto first = flights.front().host();
  std::map<std::string, ClockDifference> others;
  for (const auto& flight : flights) {
    if (flight.host() == first) continue;
    for (const auto& ours : flights) {
      if (ours.host() == first) narrow(others[flight.host()], ours, flight);
    }
  }
  for (const auto& [host, difference] : others) {
    if (!difference.is_known()) {
      unknown += (unknown.empty() ? "" : ", ") + host;
      continue;
    }
    if (difference.least <= 0 && difference.most >= 0) {
      widest = std::max({widest, -difference.least, difference.most});
      continue;
    }
    for (auto& flight : flights) {
      if (flight.host() == host) flight.header.made_utc -= difference.middle();
    }
    text += fmt::format(
        "the clock of host {} is {} {} that of host {} (to within {}): its times are converted to the latter\n", host,
        span_text(std::abs(difference.middle())), difference.middle() > 0 ? "ahead of" : "behind", first,
        span_text((difference.most - difference.least + 1) / 2));
  }
  if (widest >= 0)
    text += fmt::format("the {}clocks of the hosts agree to within {}\n",
                        text.empty() && unknown.empty() ? "" : "other ", span_text(widest));
  if (!unknown.empty())
    text += "the clocks of " + unknown + " and " + first +
            " are compared as they are: no collective that both finished shows how they differ\n";
  return text;
}

}  // namespace tandem::distributed

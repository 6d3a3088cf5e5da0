// Flight: the flight record of one rank, read from its file.
#pragma once

#include <tandem/distributed/groups/observers/flight_file.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tandem::distributed {

// What one rank did in one group. Only collectives with a number count.
struct Track {
  std::map<std::uint64_t, FlightEntry> entries;  // by sequence
  std::uint64_t reached = 0;                     // the last sequence that the rank took part in
  std::uint64_t finished = 0;                    // the last sequence that it finished
};

// The file of one rank.
struct Flight {
  FlightHeader header;
  std::map<std::string, Track> tracks;  // by the group's name
  std::int64_t torn = 0;                // entries that were being written

  int rank() const { return header.rank; }
  std::string host() const;
  std::string name() const;  // "rank 1 (host, pid 4711)"
  // Nanoseconds since 1970, by the clock of the rank's host.
  std::int64_t utc(std::int64_t steady) const { return header.made_utc + (steady - header.made_steady); }
};

// A text field of the file, without control characters.
template <std::size_t n>
std::string text_of(const char (&field)[n]) {
  std::string text(field, strnlen(field, n));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

std::string span_text(std::int64_t nanoseconds);  // "1.500 s"

// Error: what is wrong with the file.
Flight read_flight(const std::filesystem::path& path);

// Brings the clocks of several hosts together. No rank leaves an all_reduce before all ranks have reached it, so each
// one that two hosts have ended bounds the difference of their clocks from both sides. Where two clocks cannot agree,
// times of the second host become those of the first. Returns lines that say what was found; nothing where there is one
// host. `flights` are in the order of their ranks.
std::string align_clocks(std::vector<Flight>& flights);

}  // namespace tandem::distributed

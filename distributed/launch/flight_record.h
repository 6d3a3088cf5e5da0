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

// The operations of one rank in one group. Only collectives with a number count.
struct Track {
  std::map<std::uint64_t, FlightEntry> entries;  // by sequence
  std::uint64_t reached = 0;                     // the last sequence in which the rank took part
  std::uint64_t finished = 0;                    // the last sequence that it finished
};

// The file of one rank.
struct Flight {
  FlightHeader header;
  std::map<std::string, Track> tracks;  // by the group's name
  std::int64_t torn = 0;                // number of incompletely written entries

  int rank() const { return header.rank; }
  std::string host() const;
  std::string name() const;  // "rank 1 (host, pid 4711)"
  // Converts a steady time to nanoseconds since 1970, by the clock of the rank's host.
  std::int64_t utc(std::int64_t steady) const { return header.made_utc + (steady - header.made_steady); }
};

// Returns a text field of the file, without control characters.
template <std::size_t n>
std::string text_of(const char (&field)[n]) {
  std::string text(field, strnlen(field, n));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

std::string span_text(std::int64_t nanoseconds);  // "1.500 s"

// Throws an Error that says what is wrong with the file.
Flight read_flight(const std::filesystem::path& path);

// Aligns the clocks of several hosts. No rank leaves an all_reduce before all ranks have reached it, so each all_reduce
// that two hosts have finished bounds the difference of their clocks from both sides. If two clocks are certain to
// differ, the function converts the times of the second host to the clock of the first. Returns lines that describe the
// result, or an empty string if there is only one host. `flights` must be in the order of their ranks.
std::string align_clocks(std::vector<Flight>& flights);

}  // namespace tandem::distributed

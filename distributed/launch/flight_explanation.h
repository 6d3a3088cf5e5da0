// What the flight records of a job's ranks say together: which rank is behind, and what the others wait for.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::distributed {

// Reads rank-0, rank-1, ... in `folder` (distributed/groups/observers/flight_file.h); where there are none, in the
// newest folder below it that has some. The job may still run. Returns three lines for people (which rank is behind,
// where, what the others wait for), then a line for each rank whose file is missing, damaged, of another attempt or of
// another version, and a timeline of the last collectives. Error when no file can be read.
//
// The times of several hosts are brought together by the collectives that they have ended (flight_record.h), and a line
// says how well. Which rank is behind follows from the numbers of the collectives alone.
std::string explain_flight(const std::filesystem::path& folder);

}  // namespace tandem::distributed

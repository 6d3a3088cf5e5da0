// What the flight records of a job's ranks say together: which rank is behind, and what the others wait for.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::distributed {

// Reads rank-0, rank-1, ... in `folder` (distributed/groups/observers/flight_file.h); where there are none, in the
// newest folder below it that has some. The job may still run. Returns three lines for people (which rank is behind,
// where, what the others wait for), then a line for each rank whose file is missing, damaged, of another generation or
// of another version, and a timeline of the last collectives. Error when no file can be read.
//
// The clocks of several hosts are aligned by the collectives that ended on all of them (flight_record.h), and one line
// says how well they agree. Which rank is behind follows from the numbers of the collectives alone.
std::string explain_flight(const std::filesystem::path& folder);

}  // namespace tandem::distributed

// Explains the flight records of a job's ranks: which rank is behind, and what the others wait for.
#pragma once

#include <filesystem>
#include <string>

namespace tandem::distributed {

// Reads rank-0, rank-1, ... in `folder` (distributed/groups/observers/flight_file.h). If it has no such files, reads
// those in its newest subfolder that has some. The job may still be running. Returns three lines for the user (which
// rank is behind, where it is, and what the others wait for), then a line for each rank whose file is missing, damaged,
// or from another generation or version, and a timeline of the last collectives. Throws an Error if no file can be
// read.
//
// The collectives that ended on all hosts are used to align the hosts' clocks (flight_record.h), and one line says how
// well they agree. Only the numbers of the collectives decide which rank is behind.
std::string explain_flight(const std::filesystem::path& folder);

}  // namespace tandem::distributed

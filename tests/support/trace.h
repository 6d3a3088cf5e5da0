// Reads the Chrome traces that Profile writes.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::testing {

struct Trace {
  std::string process_name;
  std::string label;                   // empty if there is none
  std::map<int, std::string> lanes;    // the names of the lanes, by tid
  std::vector<nlohmann::json> ranges;  // the range events of the file, unchanged

  // Returns the number of ranges with this name in this lane.
  int count(const std::string& lane, const std::string& name) const;
};

// Reads a trace. The test fails if the file is not JSON, or if it contains anything except names and ranges of one
// process.
Trace read_trace(const std::string& path);

// Expects that any two ranges of a lane are disjoint or nested.
void expect_nested(const Trace& trace);

}  // namespace tandem::testing

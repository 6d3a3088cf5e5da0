// The messages that the nodes of a job on several hosts exchange through the store: statuses and the assignment, as
// JSON.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/job_assignment.h>

#include <string>

namespace tandem::distributed {

// Thrown for a text in the store that was not written by a launcher of this version.
struct ForeignText : Error {
  using Error::Error;
};

// Convert to and from JSON, for the store. Decoding may throw ForeignText.
std::string encode(const NodeStatus& status);
std::string encode(const JobAssignment& assignment);
NodeStatus decode_status(const std::string& text);
JobAssignment decode_assignment(const std::string& text);

}  // namespace tandem::distributed

// What the nodes of a job on several hosts leave in the store for each other: statuses and the assignment, as JSON.
#pragma once

#include <tandem/core/base/check.h>
#include <tandem/distributed/launch/job_assignment.h>

#include <string>

namespace tandem::distributed {

// A text in the store that no launcher of this version wrote.
struct ForeignText : Error {
  using Error::Error;
};

// To and from JSON, for the store. Decoding throws ForeignText.
std::string encode(const NodeStatus& status);
std::string encode(const JobAssignment& assignment);
NodeStatus decode_status(const std::string& text);
JobAssignment decode_assignment(const std::string& text);

}  // namespace tandem::distributed

// Code that the executors of operations share: HostExecutor for arrays in host memory, NcclExecutor for arrays on a
// GPU.
#pragma once

#include <tandem/distributed/groups/observed_operation.h>
#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <string>
#include <vector>

namespace tandem::distributed {

// The same operation on contiguous arrays of `device`. An array that is contiguous and on `device` already is used
// itself. Any other input is copied, and any other output gets uninitialised memory. An operation without inputs reads
// its outputs, so its outputs are copied too. On a GPU the copies are made in the current stream. A copy from a GPU to
// the host waits for the GPU.
Operation contiguous_on(Device device, const Operation& given);

// Writes the outputs of a contiguous operation to those that the caller gave, where they are different arrays.
void copy_back(const Operation& contiguous, const Operation& given);

// Says of the outputs that this operation has changed them, so that a backward that saved one of them can complain.
void mark_written(const Operation& operation);

// Looks at `work` until it is done. Error after `timeout`, which calls it `what`.
void await_done(const Work& work, const std::string& what, std::chrono::milliseconds timeout);

// "all_reduce 'loss' is not done after 0.5 s"
std::string not_done_text(const std::string& what, std::chrono::milliseconds timeout);
// The error of an operation `what` that comes after the group has failed: "all_reduce 'loss' can't run, the process
// group is broken: ...", where `failure` is the group's first failure.
std::string broken_text(const std::string& what, const std::string& failure);
// The error of an operation `what` to which `ranks` did not come within `timeout`, and what the observers know about
// them.
std::string late_text(const GroupObservers& observers, const Members& members, const std::vector<int>& ranks,
                      const std::string& what, std::chrono::milliseconds timeout);
std::string seconds_text(std::chrono::milliseconds time);  // "1.5 s"

}  // namespace tandem::distributed

// Code shared by the two executors: HostExecutor for arrays in host memory, and NcclExecutor for arrays on a GPU.
#pragma once

#include <tandem/distributed/groups/observed_operation.h>
#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <string>
#include <vector>

namespace tandem::distributed {

// Returns the same operation on contiguous arrays of `device`. An array that is already contiguous and on `device` is
// used directly. Any other input is copied, and any other output gets uninitialised memory. An operation without inputs
// reads its outputs, so their contents are copied too. On a GPU the copies are made in the current stream. A copy from
// a GPU to the host waits for the GPU.
Operation contiguous_on(Device device, const Operation& given);

// Copies each output of `contiguous` to the same output of `given`, unless both are the same array.
void copy_back(const Operation& contiguous, const Operation& given);

// Marks the outputs as changed in place. A backward pass that saved one of them then throws an Error.
void mark_written(const Operation& operation);

// Polls `work` until it is done. Throws an Error that names `what` if that takes longer than `timeout`.
void await_done(const Work& work, const std::string& what, std::chrono::milliseconds timeout);

// "all_reduce 'loss' is not done after 0.5 s"
std::string not_done_text(const std::string& what, std::chrono::milliseconds timeout);
// Returns the error text of an operation that is started after the group has failed: "all_reduce 'loss' can't run, the
// process group is broken: ...". `failure` is the group's first failure.
std::string broken_text(const std::string& what, const std::string& failure);
// Returns the error text of an operation that `ranks` did not reach within `timeout`, with what the observers know
// about these ranks.
std::string late_text(const GroupObservers& observers, const Members& members, const std::vector<int>& ranks,
                      const std::string& what, std::chrono::milliseconds timeout);
std::string seconds_text(std::chrono::milliseconds time);  // "1.5 s"

}  // namespace tandem::distributed

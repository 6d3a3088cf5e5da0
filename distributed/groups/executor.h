// What the executors of operations share: HostExecutor for arrays in host memory, NcclExecutor for arrays on a GPU.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <string>

namespace tandem::distributed {

// The same operation on contiguous arrays of `device`. A given array that is contiguous and on `device` is taken as it
// is. Other inputs are copied, and other outputs get new arrays, into which they are copied where the operation has no
// inputs and so reads its outputs. On a GPU the
// copies are made in the current stream; reading an array of a GPU from the host waits for the GPU.
Operation contiguous_on(Device device, const Operation& given);

// Writes the outputs of a contiguous operation to those that the caller gave, where they are different arrays.
void copy_back(const Operation& contiguous, const Operation& given);

// Says of the outputs that this operation has changed them, so that a backward that saved one of them can complain.
void mark_written(const Operation& operation);

// Looks at `work` until it is done. Error after `timeout`, which calls it `what`.
void await_done(const Work& work, const std::string& what, std::chrono::milliseconds timeout);

// "all_reduce 'loss' is not done after 0.5 s"
std::string not_done_text(const std::string& what, std::chrono::milliseconds timeout);
// The error text of an operation that is started after the group's first failure.
std::string broken_text(const std::string& what, const std::string& failure);
std::string seconds_text(std::chrono::milliseconds time);  // "1.5 s"

}  // namespace tandem::distributed

// A log of the calls of cuBLASLt and cuDNN, with the algorithm that each of them uses. It helps to find out why a layer
// is slow on a GPU. The environment variable TANDEM_PLAN_LOG names the file.
#pragma once

#include <string>

namespace tandem::cuda {

// Returns whether the user wants a log. Otherwise callers need not collect the texts of its lines.
bool has_plan_log();
// Adds a line, after the module and the operation that this thread is in. Any thread may call.
void log_plan(const std::string& line);

}  // namespace tandem::cuda

// A log of what cuBLASLt and cuDNN were asked for, and of which algorithm answers: for people who ask why a layer is
// slow on their GPU. The environment variable TANDEM_PLAN_LOG names the file.
#pragma once

#include <string>

namespace tandem::cuda {

// Whether a log is wanted. Collecting what goes into it costs its time only then.
bool has_plan_log();
// Adds a line, after the module and the operation that this thread is in. Any thread may call.
void log_plan(const std::string& line);

}  // namespace tandem::cuda

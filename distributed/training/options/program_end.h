// How a training program ends: its exit code, and which process says what went wrong.
#pragma once

#include <functional>
#include <string>

namespace tandem::distributed {

// Calls `body`. `is_rank_0`: whether this process speaks for all of the job. Returns the exit code, and prints errors,
// as TrainingOptions::run() says.
int exit_code_of(const std::string& program, const std::function<void(bool is_rank_0)>& body);

}  // namespace tandem::distributed

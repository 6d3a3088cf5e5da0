// How a training program ends: its exit code, and which process says what went wrong.
#pragma once

#include <functional>
#include <string>

namespace tandem::distributed {

// Calls `body`. `is_rank_0`: whether this process speaks for all of the job. Returns the exit code:
//   0  the body has returned
//   1  it threw. The message goes to stderr, after the rank if there are several, and to the launcher.
//   128 + the signal, 0 for SIGUSR1: it threw StoppedBySignal
//   2  a UsageError. One process of each host prints it.
int exit_code_of(const std::string& program, const std::function<void(bool is_rank_0)>& body);

}  // namespace tandem::distributed

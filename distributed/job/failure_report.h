// Reports a failing process's error to its launcher.
#pragma once

#include <chrono>
#include <exception>
#include <string>

namespace tandem::distributed {

// Tells the launcher (tandemrun or torchrun) why this process is about to fail: writes `message` and the time `when` to
// the file TORCHELASTIC_ERROR_FILE. The launcher names the earliest failure of a job as the cause
// (distributed/launch/worker_failure.h). The function does nothing without such a launcher. It never throws, because a
// second error would hide the first. `is_of_peer` is whether the message is about another rank. `is_printed` is whether
// this process has printed the message to stderr, so the launcher need not repeat it.
void report_failure(const std::string& message,
                    std::chrono::system_clock::time_point when = std::chrono::system_clock::now(),
                    bool is_of_peer = false, bool is_printed = false) noexcept;

// Does the same for an exception that ends the program. Other ranks may notice that a rank has left before that rank
// has told the launcher why. For this reason, the report of a PeerError, which means that another rank failed, is dated
// one second later, which is more than a report takes.
void report_failure(const std::exception& error, bool is_printed = false) noexcept;

}  // namespace tandem::distributed

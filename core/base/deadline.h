// Deadlines that count only the time in which this process ran.
//
// A process may be stopped for any time: by Ctrl-Z, by a batch system that suspends jobs, in a debugger. When it goes
// on, nothing that it waited for has had the time to happen, and a deadline by the system's clock would be over. No
// system call tells how long a process was stopped. So waits come in slices, and a clock that is read before and after
// each slice counts it as one second at most. A peer that is stopped alone is still late: this process runs meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

namespace tandem {

// The clock. It stands still if it is not read for more than a second, so a wait with a Deadline must be one of the
// functions below, or a loop with shorter pauses. It lacks parts of a standard clock on purpose: the standard library's
// own waits don't compile with its times.
struct RunningTime {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<RunningTime, duration>;
  static time_point now();  // any thread
};
using Deadline = RunningTime::time_point;  // Deadline::max(): never

// How long the next slice of a wait until `deadline` is: 250 ms, or less if the deadline comes earlier; never negative.
RunningTime::duration next_slice(Deadline deadline);

// As the standard library's functions of these names: each returns false if the deadline comes first.
template <class IsTrue>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Deadline deadline,
                const IsTrue& is_true) {
  while (!is_true()) {
    if (RunningTime::now() >= deadline) return false;
    changed.wait_for(lock, next_slice(deadline));
  }
  return true;
}
template <class T>
bool wait_until(const std::future<T>& result, Deadline deadline) {
  while (result.wait_for(next_slice(deadline)) != std::future_status::ready)
    if (RunningTime::now() >= deadline) return false;
  return true;
}

}  // namespace tandem

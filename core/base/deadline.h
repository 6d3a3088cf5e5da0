// Deadlines that count only the time during which this process ran.
//
// A process may be stopped for any length of time: by Ctrl-Z, by a batch system that suspends jobs, or by a debugger.
// When it resumes, the events that it waited for have had no time to happen, but a deadline of the system clock would
// have passed. No system call tells how long a process was stopped. Waits are therefore cut into slices, and a clock
// that is read before and after each slice counts at most one second for each slice. A deadline still detects a peer
// that is stopped alone, because this process keeps running.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

namespace tandem {

// The clock. It stands still if nothing reads it for more than a second. A wait with a Deadline must therefore use one
// of the functions below, or a loop with shorter pauses. The clock deliberately lacks parts of a standard clock: the
// waits of the standard library don't compile with its time points.
struct RunningTime {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<RunningTime, duration>;
  static time_point now();  // any thread
};
using Deadline = RunningTime::time_point;  // Deadline::max(): never

// Returns the length of the next slice of a wait until `deadline`: 250 ms, or less if the deadline is sooner; never
// negative.
RunningTime::duration next_slice(Deadline deadline);

// Like the standard library's functions of this name. Each returns false if the deadline passes first.
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

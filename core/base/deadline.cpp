#include <tandem/core/base/deadline.h>

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Four slices fit into the clock's longest step. A thread that is scheduled late therefore loses no time.
constexpr milliseconds slice{250}, longest_step{1000};

}  // namespace

RunningTime::time_point RunningTime::now() {
  static std::mutex mutex;
  static auto read = steady_clock::now();              // guarded by mutex
  static time_point running(read.time_since_epoch());  // guarded by mutex
  const std::lock_guard lock(mutex);
  const auto now = steady_clock::now();
  running += std::min<duration>(now - read, longest_step);
  read = now;
  return running;
}

RunningTime::duration next_slice(Deadline deadline) {
  return std::clamp<RunningTime::duration>(deadline - RunningTime::now(), RunningTime::duration(0), slice);
}

}  // namespace tandem

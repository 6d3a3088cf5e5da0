#include <tandem/distributed/groups/host/spin.h>

#include <sched.h>

#include <atomic>

namespace tandem::distributed {
namespace {

using Clock = std::chrono::steady_clock;

// This is long enough for some skew between ranks within a step, and far longer than waking a sleeping thread takes.
constexpr std::chrono::microseconds spin_time{2000};

// A thread that yields to another program's busy thread gets its core back only after a whole time slice of 3 to 4 ms.
// A thread that sleeps is scheduled at once when it wakes, because it has used less of its CPU time. A process
// therefore sleeps if other work needs its core. Both values are judgements, not measurements. If the other thread
// belongs to a rank of this job, it yields far sooner than `long_yield`. Losing one time slice per `sleep_time` costs 4
// %.
constexpr std::chrono::microseconds long_yield{500};
constexpr std::chrono::milliseconds sleep_time{100};

std::atomic<Clock::rep> sleeps_until{0};  // for all threads of this process

}  // namespace

Spin::Spin(bool may_spin) {
  if (!may_spin) return;
  const auto now = Clock::now();
  if (now.time_since_epoch().count() >= sleeps_until.load(std::memory_order_relaxed)) until_ = now + spin_time;
}

bool Spin::goes_on() {
  const auto before = Clock::now();
  if (before >= until_) return false;
  if (is_first_) {
    is_first_ = false;
    return true;
  }
  sched_yield();
  const auto after = Clock::now();
  if (after - before < long_yield) return true;
  sleeps_until.store((after + sleep_time).time_since_epoch().count(), std::memory_order_relaxed);
  until_ = {};
  return true;  // the caller checks once more
}

}  // namespace tandem::distributed

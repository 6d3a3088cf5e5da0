#include <tandem/distributed/training/spin_limit.h>

#include <omp.h>
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stop_token>

namespace tandem::distributed {
namespace {

using Clock = std::chrono::steady_clock;

// Measured on two cores with two busy programs: the system takes a core away 20 times in a `period`, and 4 times while
// spins are short; on idle cores less than once.
constexpr std::chrono::milliseconds period{100};
constexpr long many = 3;
constexpr std::chrono::seconds rest{2};  // chosen: to try long spins costs at most a twentieth of the time

long cores_taken_away() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Returns at `time`, or earlier when `stop` is requested. Returns whether it is.
bool stopped_before(const std::stop_token& stop, Clock::time_point time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  return std::condition_variable_any().wait_until(lock, stop, time, [&] { return stop.stop_requested(); });
}

void watch(const std::stop_token& stop) {
  std::optional<ShortSpins> short_spins;
  auto until = Clock::now();
  for (long before = cores_taken_away(); !stopped_before(stop, Clock::now() + period);) {
    const long now = cores_taken_away();
    if (now - before >= many) until = Clock::now() + rest;
    before = now;
    if (Clock::now() >= until) short_spins.reset();
    else if (!short_spins) short_spins.emplace();
  }
}

}  // namespace

SpinLimit::SpinLimit() {
  const bool is_chosen = std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT");
  if (omp_get_max_threads() > 1 && !is_chosen) watcher_ = std::jthread(watch);
}

ShortSpins::ShortSpins()
    : owner_([](const std::stop_token& stop) {
#pragma omp parallel num_threads(omp_get_num_procs())
        { omp_get_thread_num(); }
        stopped_before(stop, Clock::time_point::max());  // the team lives as long as the thread that made it
      }) {
}

}  // namespace tandem::distributed

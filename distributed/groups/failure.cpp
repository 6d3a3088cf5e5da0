#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/failure.h>

#include <chrono>
#include <thread>

namespace tandem::distributed {

std::string progress_key(int rank) { return "progress/" + std::to_string(rank); }
std::string left_key(int rank) { return "left/" + std::to_string(rank); }

std::string report_to_ranks(Store& store, const std::string& failure) {
  try {
    return store.compare_set(failure_key, "", failure);
  } catch (const Error&) {
    return failure;
  }
}

void await_reason(Store& store, int rank) try {
  using Clock = RunningTime;
  // Chosen: a rank asks the store about the others and reports in less.
  for (const auto deadline = Clock::now() + std::chrono::seconds(2); Clock::now() < deadline;) {
    if (store.check({failure_key}) || store.check({left_key(rank)})) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
} catch (const std::exception&) {
  // Without a store no rank can say why.
}

}  // namespace tandem::distributed

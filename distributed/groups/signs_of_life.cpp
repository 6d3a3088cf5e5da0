#include <tandem/core/base/check.h>
#include <tandem/distributed/groups/signs_of_life.h>

#include <chrono>
#include <thread>
#include <vector>

namespace tandem::distributed {

std::string value_of(Store& store, const std::string& key) { return store.check({key}) ? store.get(key) : ""; }

void leave_together(Store& store, int rank, int size) {
  leave(store, rank);
  std::vector<std::string> others;
  for (int r = 1; r < size; ++r) others.push_back(left_key(r));
  try {
    if (rank == 0) store.wait(others, std::chrono::seconds(2));
  } catch (const Error&) {
  }
}

std::string report_to_ranks(Store& store, const std::string& failure) {
  try {
    return store.compare_set("failure", "", failure);
  } catch (const Error&) {
    return failure;
  }
}

void await_reason(Store& store, int rank) try {
  // This is longer than a rank needs to ask the store about the others and to report a failure.
  for (const auto end = RunningTime::now() + std::chrono::seconds(2); RunningTime::now() < end;) {
    if (!failure_of_group(store).empty() || has_left(store, rank)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
} catch (const std::exception&) {
  // The store is gone, so no rank can say why.
}

}  // namespace tandem::distributed

#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/elastic/change_watch.h>
#include <tandem/distributed/groups/process_group.h>

#include <algorithm>
#include <chrono>

namespace tandem::distributed {

using std::chrono::milliseconds;

ChangeWatch::ChangeWatch(std::shared_ptr<Store> store, std::string key, std::function<void()> changed)
    : store_(std::move(store)), key_(std::move(key)), changed_(std::move(changed)) {
  thread_ = start_thread("the thread that watches the members", [this] { run(); });
}

ChangeWatch::~ChangeWatch() {
  is_over_ = true;
  thread_.join();
}

// The wait ends within microseconds when the key arrives. Its slices only limit how long the destructor waits.
void ChangeWatch::run() try {
  while (!is_over_ && !store_->check({key_})) {
    try {
      store_->wait({key_}, milliseconds(100));
    } catch (const Error&) {  // not yet
    }
  }
  if (!is_over_) changed_();
} catch (const std::exception&) {
  // The store is gone, so the launcher is, and this process ends with it.
}

std::string InterruptibleStore::get(const std::string& key) {
  wait({key}, timeout());
  return store_->get(key);
}

bool InterruptibleStore::check(const std::vector<std::string>& keys) {
  const bool has_ended = watched_->check({end_});  // first: keys that came before the end count
  const bool are_there = store_->check(keys);
  if (has_ended && !are_there) throw PeerError("the members of the job have changed");
  return are_there;
}

void InterruptibleStore::wait(const std::vector<std::string>& keys, Timeout timeout) {
  constexpr milliseconds slice{20};
  for (const auto deadline = RunningTime::now() + timeout;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - RunningTime::now());
    try {
      return store_->wait(keys, std::clamp(left, milliseconds(1), slice));
    } catch (const Error&) {
      if (check(keys)) return;
      TANDEM_CHECK(left > slice, "waited ", std::chrono::duration<double>(timeout).count(), " s, but no process set ",
                   keys.front(), keys.size() == 1 ? "" : " and other keys");
    }
  }
}

}  // namespace tandem::distributed

// GlooAlarm: ends the waits of a Gloo context when a deadline has come.
#pragma once

#include <tandem/core/base/deadline.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace gloo {
class Context;
}

namespace tandem::distributed {

// A thread looks at the deadlines. Any thread may call the methods.
class GlooAlarm {
 public:
  explicit GlooAlarm(std::shared_ptr<gloo::Context> context);
  ~GlooAlarm();

  // While the result lives, the alarm has this deadline, and lives itself: a wait may outlast the transport.
  static std::shared_ptr<void> set(const std::shared_ptr<GlooAlarm>& alarm, Deadline deadline);

  // Closes every connection of the context, and so ends all waits.
  void ring() const noexcept;
  // Returns whether a deadline has passed. Gloo's exceptions for the waits that it ended don't say so.
  bool has_rung() const { return has_rung_; }

 private:
  void run();

  const std::shared_ptr<gloo::Context> context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<Deadline> deadlines_;  // guarded by mutex_
  bool is_over_ = false;               // guarded by mutex_
  std::atomic<bool> has_rung_ = false;
  std::thread thread_;
};

}  // namespace tandem::distributed

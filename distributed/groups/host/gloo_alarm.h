// GlooAlarm: ends all waits of a Gloo context when a deadline passes.
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

// The alarm's own thread checks the deadlines. Any thread may call the methods.
class GlooAlarm {
 public:
  explicit GlooAlarm(std::shared_ptr<gloo::Context> context);
  ~GlooAlarm();

  // Sets a deadline for as long as the result lives. The result also keeps the alarm alive, because a wait may outlive
  // the transport.
  static std::shared_ptr<void> set(const std::shared_ptr<GlooAlarm>& alarm, Deadline deadline);

  // Closes every connection of the context, which ends all waits.
  void ring() const noexcept;
  // Returns whether the alarm has closed the connections because a deadline passed. Gloo's exceptions don't tell.
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

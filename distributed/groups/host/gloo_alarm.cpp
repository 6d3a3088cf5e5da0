#include <tandem/core/base/thread.h>
#include <tandem/distributed/groups/host/gloo_alarm.h>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <utility>

namespace tandem::distributed {

GlooAlarm::GlooAlarm(std::shared_ptr<gloo::Context> context)
    : context_(std::move(context)),
      thread_(start_thread("the thread that watches Gloo's deadlines", [this] { run(); })) {}

GlooAlarm::~GlooAlarm() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::shared_ptr<void> GlooAlarm::set(const std::shared_ptr<GlooAlarm>& alarm, Deadline deadline) {
  const std::lock_guard lock(alarm->mutex_);
  alarm->deadlines_.insert(deadline);
  if (next_slice(deadline) < next_slice(Deadline::max())) alarm->changed_.notify_one();
  return {alarm.get(), [alarm, deadline](void*) {
            const std::lock_guard removing(alarm->mutex_);
            alarm->deadlines_.erase(alarm->deadlines_.find(deadline));
          }};
}

// Gloo has no call that wakes a thread waiting for a peer. But when one wait times out, Gloo closes every connection of
// the context, which wakes all other waiting threads.
void GlooAlarm::ring() const noexcept {
  char unused = 0;
  try {
    context_->createUnboundBuffer(&unused, 1)->waitRecv(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
  }
}

void GlooAlarm::run() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    auto next = deadlines_.empty() ? Deadline::max() : *deadlines_.begin();
    if (RunningTime::now() >= next) {
      has_rung_ = true;
      ring();
      next = Deadline::max();
    }
    changed_.wait_for(lock, next_slice(next));
  }
}

}  // namespace tandem::distributed

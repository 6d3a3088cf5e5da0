#include <tandem/core/base/thread.h>
#include <tandem/core/profile/profile.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/host/host_executor.h>

#include <utility>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Most threads that start a small operation wait for it at once. Such a thread runs the operation itself, without the
// help of another thread. So the communication thread leaves operations of up to small_bytes alone for small_delay.
// Both figures are estimates, which no measurement has compared with others: small_delay is ample time for a thread to
// get from start() to wait().
constexpr std::size_t small_bytes = std::size_t{1} << 20;
constexpr std::chrono::microseconds small_delay{200};

}  // namespace

HostExecutor::HostExecutor(std::shared_ptr<Store> store, Members members, const GroupOptions& options,
                           std::unique_ptr<HostTransport> transport)
    : options_(options),
      members_(std::move(members)),
      transport_(std::move(transport)),
      lane_(options.recorder, transport_->name(), members_),
      watchdog_(std::make_unique<Watchdog>(std::move(store), options.rank, members_, lane_,
                                           [this](const std::string& failure) { fail(failure); })),
      thread_(start_thread("the communication thread", [this] {
        Profile::name_thread("communication");
        run();
      })) {}

void HostExecutor::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (busy_ || !queue_.empty() || transfers_ > 0) {
      if (failure_.empty()) failure_ = "the process group was destroyed while the operation was running";
      transport_->break_off();
    }
  }
  wake_.notify_all();
  thread_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ && transfers_ == 0; });
  if (failure_.empty()) failure_ = "the process group was destroyed";
  lock.unlock();
  watchdog_.reset();
  transport_.reset();
}

// A collective in the queue. `done` and `error` are guarded by the executor's mutex_. The other members belong to the
// thread that starts the collective, then to the one that took it out of the queue.
struct HostExecutor::Task {
  Operation given;
  Operation contiguous;
  Call call;
  Clock::time_point queued = Clock::now();
  std::uint64_t record = 0;  // its number in the flight recorder
  bool small = false;
  bool done = false;
  std::exception_ptr error;
};

class HostExecutor::QueuedWork : public Work {
 public:
  QueuedWork(std::shared_ptr<HostExecutor> executor, std::shared_ptr<Task> task)
      : executor_(std::move(executor)), task_(std::move(task)) {}

  bool is_done() const override {
    const std::lock_guard lock(executor_->mutex_);
    return task_->done;
  }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(executor_->mutex_);
    return task_->error;
  }
  void wait() override {
    const ProfileRange range(ProfileRange::Kind::phase, "wait for ranks");
    std::unique_lock lock(executor_->mutex_);
    while (!task_->done) {
      if (executor_->busy_ || executor_->queue_.empty()) {
        executor_->changed_.wait(lock);
      } else {
        executor_->run_front(lock, true);
      }
    }
    if (task_->error) std::rethrow_exception(task_->error);
  }
  void wait(Milliseconds timeout) override {
    std::unique_lock lock(executor_->mutex_);
    const bool done = executor_->changed_.wait_for(lock, timeout, [this] { return task_->done; });
    TANDEM_CHECK(done, not_done_text(task_->given.what(), timeout));
    if (task_->error) std::rethrow_exception(task_->error);
  }

 private:
  std::shared_ptr<HostExecutor> executor_;
  std::shared_ptr<Task> task_;
};

std::shared_ptr<Work> HostExecutor::start(Operation operation) {
  if (operation.kind == Kind::send || operation.kind == Kind::receive) return start_transfer(std::move(operation));
  auto task = std::make_shared<Task>();
  task->contiguous = contiguous_on(Device{}, operation);
  mark_written(operation);
  // Where there are no bytes to move, no rank waits for another, and the operation gets no number.
  const bool moves = operation.kind == Kind::barrier || operation.bytes() > 0;
  task->call = {moves ? ++started_ : 0, operation.signature(), {}, false};
  task->small = operation.bytes() <= small_bytes;
  task->record = lane_.add(task->call.sequence, operation, task->queued);
  task->given = std::move(operation);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(task);
  }
  wake_.notify_one();
  return std::make_shared<QueuedWork>(shared_from_this(), std::move(task));
}

void HostExecutor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return (closing_ && queue_.empty()) || (!busy_ && !queue_.empty()); });
    if (queue_.empty()) return;
    const auto front = queue_.front();
    const auto due = front->queued + small_delay;
    if (front->small && !closing_ && Clock::now() < due) {
      wake_.wait_until(lock, due);
      continue;
    }
    run_front(lock, false);
  }
}

void HostExecutor::run_front(std::unique_lock<std::mutex>& lock, bool may_spin) {
  const auto task = queue_.front();
  queue_.pop_front();
  std::string error;
  if (failure_.empty()) {
    busy_ = true;
    lock.unlock();
    error = attempt(*task, may_spin);
    lock.lock();
    busy_ = false;
    if (failure_.empty()) failure_ = error;
  } else {
    error = broken_text(task->given.what(), failure_);
  }
  // The arrays are let go of before the work is done: whoever waited may count on being their only owner.
  task->contiguous.release_arrays();
  task->given.release_arrays();
  lane_.end(task->record, !error.empty());
  if (!error.empty()) task->error = std::make_exception_ptr(PeerError(error));
  task->done = true;
  changed_.notify_all();
  if (!queue_.empty() || closing_) wake_.notify_one();
}

// Runs a collective. Returns what went wrong; "" for success.
std::string HostExecutor::attempt(Task& task, bool may_spin) {
  ProfileRange range(task.given.kind_name());
  range.note("name", task.given.name);
  range.note("bytes", static_cast<std::int64_t>(task.given.bytes()));
  const std::string what = task.given.what();
  task.call.may_spin = may_spin;
  const auto now = Clock::now();
  task.call.deadline = now + options_.timeout;
  lane_.start(task.record, now);
  const auto ticket = watchdog_->begin(task.call.sequence, what, task.call.signature);
  std::string failure;
  try {
    if (task.call.sequence > 0) transport_->run(task.contiguous, task.call);
    copy_back(task.contiguous, task.given);
  } catch (const std::exception& exception) {
    failure = explain(what, task.call.signature, exception);
  }
  if (!failure.empty()) {
    bool known = false;
    {
      const std::lock_guard lock(mutex_);
      known = !failure_.empty();
      if (known) failure = closing_ ? what + ": " + failure_ : failure_;
    }
    // A rank that fails leaves, and the others see it go: the store tells them why it went.
    if (!known) failure = watchdog_->report(failure);
    lane_.fail(failure);
  }
  watchdog_->end(ticket);
  return failure;
}

// What an exception of the transport means, in words that name the ranks.
std::string HostExecutor::explain(const std::string& what, const std::string& signature,
                                  const std::exception& exception) {
  if (const auto* gone = dynamic_cast<const PeerGone*>(&exception)) {
    watchdog_->await_reason(gone->rank);
    return members_[gone->rank].name() + " closed the connection during " + what;
  }
  if (const auto* late = dynamic_cast<const PeersLate*>(&exception))
    return watchdog_->explain_late(late->ranks, what, options_.timeout);
  if (const auto* differs = dynamic_cast<const PeerDiffers*>(&exception)) {
    return "the ranks do not run the same operations: " + members_[options_.rank].name() + " runs " + what + " (" +
           signature + "), " + members_[differs->rank].name() + " runs " + differs->theirs;
  }
  return what + " failed: " + exception.what();
}

// The watchdog calls this on its own thread: something is wrong on another rank.
void HostExecutor::fail(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = failure;
  lane_.fail(failure);
  transport_->break_off();
}

}  // namespace tandem::distributed

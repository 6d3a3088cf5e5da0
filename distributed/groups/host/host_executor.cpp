#include <tandem/core/base/check.h>
#include <tandem/core/base/deadline.h>
#include <tandem/core/base/scope.h>
#include <tandem/core/base/thread.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/host/host_executor.h>
#include <tandem/distributed/groups/signs_of_life.h>

#include <utility>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Most threads that start a small operation wait for it at once. Such a thread runs the operation itself, without the
// help of another thread. For this reason, the communication thread leaves operations of up to small_bytes alone for
// small_delay. Both figures are estimates, not measured. small_delay is ample time for a thread to get from start() to
// wait().
constexpr std::size_t small_bytes = std::size_t{1} << 20;
constexpr std::chrono::microseconds small_delay{200};

}  // namespace

HostExecutor::HostExecutor(std::shared_ptr<Store> store, Members members, const GroupOptions& options,
                           std::unique_ptr<HostTransport> transport)
    : options_(options),
      members_(std::move(members)),
      store_(std::move(store)),
      transport_(std::move(transport)),
      observers_(options.observers, {store_, transport_->name(), options.rank, members_,
                                     [this](const std::string& failure) { fail(failure); }}),
      thread_(start_thread("the communication thread", [this] {
        name_thread("communication");
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
  observers_.close();
  transport_.reset();
  store_.reset();
}

// A collective in the queue. The executor's mutex_ guards `done` and `error`. The other members belong to the thread
// that starts the collective, and later to the thread that takes it out of the queue.
struct HostExecutor::Task {
  Task(GroupObservers& observers, Operation operation, Operation on_host, std::uint64_t sequence)
      : given(std::move(operation)),
        contiguous(std::move(on_host)),
        observed(observers, given, sequence, given.what()) {}

  Operation given;
  Operation contiguous;
  ObservedOperation observed;
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
    const Scope scope(Scope::Kind::phase, "wait for ranks");
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
    const bool done =
        wait_until(executor_->changed_, lock, RunningTime::now() + timeout, [this] { return task_->done; });
    TANDEM_CHECK(done, not_done_text(task_->observed.what, timeout));
    if (task_->error) std::rethrow_exception(task_->error);
  }

 private:
  std::shared_ptr<HostExecutor> executor_;
  std::shared_ptr<Task> task_;
};

std::shared_ptr<Work> HostExecutor::start(Operation operation) {
  TANDEM_CHECK(getpid() == process_, operation.what(),
               ": this process was forked after the process group was made. Only process ", process_,
               " may use the group. End the forked process with _exit()");
  if (operation.kind == Kind::send || operation.kind == Kind::receive) return start_transfer(std::move(operation));
  Operation contiguous = contiguous_on(Device{}, operation);
  mark_written(operation);
  // If there are no bytes to move, no rank waits for another, and the operation gets no number.
  const bool moves = operation.kind == Kind::barrier || operation.bytes() > 0;
  const std::lock_guard starting(starting_);
  auto task = std::make_shared<Task>(observers_, std::move(operation), std::move(contiguous), moves ? ++started_ : 0);
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
    const auto& operation = queue_.front()->observed;
    const auto due = operation.started + small_delay;
    if (operation.bytes <= small_bytes && !closing_ && Clock::now() < due) {
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
    error = run_collective(*task, may_spin);
    lock.lock();
    busy_ = false;
    if (failure_.empty()) failure_ = error;
  } else {
    error = broken_text(task->observed.what, failure_);
    task->observed.end(true);
  }
  // Release the arrays before the work is done. When wait() returns, the caller is then their only owner.
  task->contiguous.release_arrays();
  task->given.release_arrays();
  if (!error.empty()) task->error = std::make_exception_ptr(PeerError(error));
  task->done = true;
  changed_.notify_all();
  if (!queue_.empty() || closing_) wake_.notify_one();
}

std::string HostExecutor::run_collective(Task& task, bool may_spin) {
  return run_observed(task.observed, [&] {
    const auto deadline = RunningTime::now() + options_.timeout;
    if (task.observed.sequence > 0)
      transport_->run(task.contiguous, {task.observed.sequence, task.observed.signature, deadline, may_spin});
    copy_back(task.contiguous, task.given);
  });
}

std::string HostExecutor::run_observed(ObservedOperation& operation, const std::function<void()>& move) {
  std::string failure;
  operation.set_running();
  try {
    move();
  } catch (const std::exception& exception) {
    failure = reason_of(operation, exception);
    observers_.failed(failure);
  }
  operation.end(!failure.empty());
  return failure;
}

// Returns why an operation failed. That is the first failure of this group on any rank, because one failure leads to
// others. A rank that fails leaves the group, and the other ranks read the reason from the store.
std::string HostExecutor::reason_of(const ObservedOperation& operation, const std::exception& exception) {
  const auto own = explain(operation, exception);
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return closing_ ? operation.what + ": " + failure_ : failure_;
  }
  return report_to_ranks(*store_, own);
}

// Turns an exception of the transport into a text that names the ranks.
std::string HostExecutor::explain(const ObservedOperation& operation, const std::exception& exception) {
  if (const auto* gone = dynamic_cast<const PeerGone*>(&exception)) {
    await_reason(*store_, gone->rank);
    return members_[gone->rank].name() + " closed the connection during " + operation.what;
  }
  if (const auto* late = dynamic_cast<const PeersLate*>(&exception))
    return late_text(observers_, members_, late->ranks, operation.what, options_.timeout);
  if (const auto* differs = dynamic_cast<const PeerDiffers*>(&exception)) {
    return "the ranks do not run the same operations: " + members_[options_.rank].name() + " runs " +
           operation.signature + ", " + members_[differs->rank].name() + " runs " + differs->theirs;
  }
  return operation.what + " failed: " + exception.what();
}

// An observer calls this function on its own thread when something is wrong on another rank.
void HostExecutor::fail(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = failure;
  observers_.failed(failure);
  transport_->break_off();
}

}  // namespace tandem::distributed

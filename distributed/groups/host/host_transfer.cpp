// The messages of a HostExecutor between two ranks. They do not wait in its queue.
#include <tandem/core/base/deadline.h>
#include <tandem/core/base/scope.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/host/host_executor.h>

#include <atomic>
#include <utility>

namespace tandem::distributed {

class HostExecutor::TransferWork : public Work {
 public:
  TransferWork(std::shared_ptr<HostExecutor> executor, Operation given, Operation contiguous,
               std::unique_ptr<Transfer> transfer)
      : executor_(std::move(executor)),
        observed_(executor_->observers_, given, 0,
                  given.what() + (given.kind == Operation::Kind::send ? " to " : " from ") +
                      executor_->members_[given.root].name()),
        given_(std::move(given)),
        contiguous_(std::move(contiguous)),
        deadline_(RunningTime::now() + executor_->options_.timeout),
        transfer_(std::move(transfer)) {}

  // is_done() and exception() do not block while another thread is in wait().
  bool is_done() const override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (done_ || !lock) return done_;
    // While this lock is held, the executor can't destroy the transport, which the transfer uses.
    const std::lock_guard executor_lock(executor_->mutex_);
    return !executor_->failure_.empty() || transfer_->is_done();
  }
  std::exception_ptr exception() const override { return done_ ? error_ : nullptr; }
  void wait() override {
    Scope scope(Scope::Kind::phase, "wait for ranks");
    if (scope.takes_notes()) scope.note("name", given_.what());
    const std::lock_guard lock(mutex_);
    if (!done_) {
      try {
        complete();
      } catch (const std::exception&) {
        error_ = std::current_exception();
      }
      transfer_.reset();
      contiguous_.release_arrays();
      given_.release_arrays();
      done_ = true;
    }
    if (error_) std::rethrow_exception(error_);
  }
  void wait(std::chrono::milliseconds timeout) override {
    await_done(*this, given_.what(), timeout);
    wait();
  }

 private:
  void complete() {
    {
      const std::lock_guard lock(executor_->mutex_);
      if (!executor_->failure_.empty()) throw PeerError(broken_text(observed_.what, executor_->failure_));
      ++executor_->transfers_;
    }
    const auto failure = executor_->run_observed(observed_, [this] {
      transfer_->wait(deadline_);
      copy_back(contiguous_, given_);
    });
    {
      const std::lock_guard lock(executor_->mutex_);
      --executor_->transfers_;
      if (executor_->failure_.empty()) executor_->failure_ = failure;
      executor_->changed_.notify_all();
    }
    if (!failure.empty()) throw PeerError(failure);
  }

  const std::shared_ptr<HostExecutor> executor_;
  ObservedOperation observed_;  // guarded by mutex_

  // Code that needs both this mutex and the executor's must lock this one first.
  mutable std::mutex mutex_;
  Operation given_;       // its arrays are guarded by mutex_; its name never changes
  Operation contiguous_;  // guarded by mutex_
  const Deadline deadline_;
  std::unique_ptr<Transfer> transfer_;  // guarded by mutex_; null once done_
  std::atomic<bool> done_ = false;      // set once, after all else
  std::exception_ptr error_;            // never changes once done_
};

std::shared_ptr<Work> HostExecutor::start_transfer(Operation operation) {
  Operation contiguous = contiguous_on(Device{}, operation);
  std::unique_ptr<Transfer> transfer;
  const std::lock_guard starting(starting_);
  if (operation.kind == Operation::Kind::send) {
    transfer = transport_->send(contiguous.inputs[0].raw(), contiguous.inputs[0].bytes(), operation.root);
  } else {
    mark_written(operation);
    transfer = transport_->receive(contiguous.outputs[0].raw(), contiguous.outputs[0].bytes(), operation.root);
  }
  return std::make_shared<TransferWork>(shared_from_this(), std::move(operation), std::move(contiguous),
                                        std::move(transfer));
}

}  // namespace tandem::distributed

// Messages between two ranks, which do not wait in the executor's queue.
#include <tandem/core/profile/profile.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/host/host_executor.h>

#include <utility>

namespace tandem::distributed {

class HostExecutor::TransferWork : public Work {
 public:
  TransferWork(std::shared_ptr<HostExecutor> executor, Operation given, Operation contiguous,
               std::unique_ptr<Transfer> transfer)
      : executor_(std::move(executor)),
        started_(Clock::now()),
        record_(executor_->lane_.add(0, given, started_)),
        given_(std::move(given)),
        contiguous_(std::move(contiguous)),
        transfer_(std::move(transfer)) {}

  bool is_done() const override {
    const std::lock_guard lock(mutex_);
    if (done_) return true;
    // Held, so that the transport that the transfer belongs to stays until it has answered.
    const std::lock_guard executor_lock(executor_->mutex_);
    return !executor_->failure_.empty() || transfer_->is_done();
  }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void wait() override {
    ProfileRange range(ProfileRange::Kind::phase, "wait for ranks");
    if (range.is_recorded()) range.note("name", given_.what());
    const std::lock_guard lock(mutex_);
    if (!done_) {
      try {
        complete();
      } catch (const std::exception&) {
        error_ = std::current_exception();
      }
      done_ = true;
      transfer_.reset();
      contiguous_.release_arrays();
      given_.release_arrays();
    }
    if (error_) std::rethrow_exception(error_);
  }
  void wait(std::chrono::milliseconds timeout) override {
    await_done(*this, given_.what(), timeout);
    wait();
  }

 private:
  void complete() {
    const std::string what = given_.what() + (given_.kind == Operation::Kind::send ? " to " : " from ") +
                             executor_->members_[given_.root].name();
    std::string failure;
    {
      const std::lock_guard lock(executor_->mutex_);
      failure = executor_->failure_;
      if (failure.empty()) ++executor_->transfers_;
    }
    if (!failure.empty()) throw PeerError(broken_text(what, failure));
    const auto ticket = executor_->watchdog_->begin(0, what, "");
    executor_->lane_.start(record_, Clock::now());
    try {
      transfer_->wait(started_ + executor_->options_.timeout);
    } catch (const std::exception& exception) {
      failure = executor_->explain(what, "", exception);
    }
    executor_->watchdog_->end(ticket);
    executor_->lane_.end(record_, !failure.empty());
    if (!failure.empty()) {
      failure = executor_->watchdog_->report(failure);
      executor_->lane_.fail(failure);
    }
    {
      const std::lock_guard lock(executor_->mutex_);
      --executor_->transfers_;
      if (!failure.empty() && executor_->failure_.empty()) executor_->failure_ = failure;
      executor_->changed_.notify_all();
    }
    if (!failure.empty()) throw PeerError(failure);
    copy_back(contiguous_, given_);
  }

  const std::shared_ptr<HostExecutor> executor_;
  const Clock::time_point started_;
  const std::uint64_t record_;  // its number in the flight recorder

  // Who needs this mutex and the executor's locks this one first.
  mutable std::mutex mutex_;
  Operation given_;                     // its arrays are guarded by mutex_; its name never changes
  Operation contiguous_;                // guarded by mutex_
  std::unique_ptr<Transfer> transfer_;  // guarded by mutex_; null once done_
  bool done_ = false;                   // guarded by mutex_
  std::exception_ptr error_;            // guarded by mutex_
};

std::shared_ptr<Work> HostExecutor::start_transfer(Operation operation) {
  Operation contiguous = contiguous_on(Device{}, operation);
  std::unique_ptr<Transfer> transfer;
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

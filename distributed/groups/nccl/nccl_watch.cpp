// The watching thread of an NcclExecutor. If operations don't end, it finds out which rank is to blame.
#include <tandem/core/cuda/undefined_contents.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/nccl/nccl_executor.h>
#include <tandem/distributed/groups/signs_of_life.h>

#include <utility>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds watch_period{2};   // while operations run
constexpr milliseconds idle_period{500};  // while no operation runs
constexpr milliseconds look_period{250};  // between two checks of the store
constexpr milliseconds patience{1000};    // after a peer has left: other ranks may just be slow

// Returns the answer to a question to the store, or false if the store is gone. Then only the timeout ends an operation
// that is stuck.
template <class Question>
bool is_true(Question question) try {
  return question();
} catch (const std::exception&) {
  return false;
}

}  // namespace

void NcclExecutor::watch() {
  // If these two calls fail, find_failure() reports the error later.
  cudaSetDevice(device_.index);
  // Polling events must not disturb a thread that records a CUDA graph.
  auto mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  std::unique_lock lock(mutex_);
  while (!(closing_ && pending_.empty()) && failure_.empty()) {
    wake_.wait_for(lock, pending_.empty() ? idle_period : watch_period);
    auto finished = take_finished();
    lock.unlock();
    for (const auto& one : finished) one.task->observed->end(false);
    finished.clear();
    std::string failure;
    try {
      failure = find_failure();
    } catch (const std::exception& error) {
      failure = members_[rank_].name() + ": " + error.what();
    }
    if (!failure.empty()) fail(report_to_ranks(*store_, failure));
    lock.lock();
  }
  if (failure_.empty()) return;
  // The results of aborted operations are undefined. Report the error before the program reads them.
  const auto error = std::make_exception_ptr(PeerError(failure_));
  if (!closing_ && (!pending_.empty() || !graphs_.empty())) cuda::mark_undefined(device_.index, error);
  for (const auto& task : pending_) {
    task->error = error;
    task->done = true;
    task->observed->end(true);
  }
  const auto failure = failure_;
  lock.unlock();
  break_off_graphs(failure);
  communicator_->abort();
  lock.lock();
  pending_.clear();  // NCCL no longer touches their arrays
}

// Removes the finished operations from pending_, and returns them with their arrays, which the caller releases outside
// the lock. A Work that the program does not wait for may live long, but its arrays need not.
std::vector<NcclExecutor::Finished> NcclExecutor::take_finished() {
  std::vector<Finished> finished;
  while (!pending_.empty() && pending_.front()->finished.state() == cudaSuccess) {
    auto task = std::move(pending_.front());
    pending_.pop_front();
    task->done = true;
    auto given = std::exchange(task->given, {}), contiguous = std::exchange(task->contiguous, {});
    finished.push_back({std::move(task), std::move(given), std::move(contiguous)});
    front_since_ = Clock::now();
  }
  return finished;
}

// Returns the failure, or an empty string if nothing failed.
std::string NcclExecutor::find_failure() {
  std::shared_ptr<Task> front;
  Clock::time_point since;
  bool holds_recorded = false;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return "";
    holds_recorded = !graphs_.empty();
    if (!pending_.empty()) front = pending_.front();
    since = front_since_;
  }
  try {
    const std::lock_guard lock(patience_mutex_);
    if (patience_) patience_();
  } catch (const PeerError& error) {
    return error.what();
  }
  const auto now = Clock::now();
  const std::string what = front ? front->what : "the recorded step";
  if (front) {
    const auto status = front->finished.state();
    if (status != cudaSuccess && status != cudaErrorNotReady)
      return members_[rank_].name() + ": " + what + ": CUDA: " + cudaGetErrorString(status);
  }
  if (const auto error = communicator_->error(); !error.empty()) {
    const auto departed = find_departed();
    return what + " failed: " + error + (departed.empty() ? "" : "; " + departed);
  }
  if (front && now - since > timeout_) return explain_late(*front->observed);

  if (now - last_look_ < look_period) return "";
  last_look_ = now;
  // Every rank watches the next rank. During a recorded step, this rank can't tell when its operations end. The next
  // rank may then leave in order, after finishing all its operations. That is a failure only if this rank's GPU stays
  // busy for longer than the timeout afterwards.
  const bool stuck = (front && now - since > look_period) || (!front && holds_recorded && is_busy());
  if (!stuck || members_.size() == 1) {
    neighbour_left_ = false;
    return "";
  }
  if (!has_left(next_)) return "";
  const bool in_order = !front && is_true([&] { return store_->check({ended_key(next_)}); });
  if (!std::exchange(neighbour_left_, true)) left_since_ = now;
  if (now - left_since_ < (in_order ? timeout_ : patience) || (front && since > left_since_)) return "";
  const auto departed = find_departed();
  return departed.empty() ? "" : departed + " while the other ranks wait in " + what;
}

bool NcclExecutor::has_left(int rank) {
  return rank != rank_ && is_true([&] { return distributed::has_left(*host_->store(), rank); });
}

// Returns "rank 1 (host, pid 4711) has left", or an empty string if no rank has left.
std::string NcclExecutor::find_departed() {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
    if (has_left(r)) ranks.push_back(r);
  }
  if (ranks.empty()) return "";
  return names_of(members_, ranks) + (ranks.size() == 1 ? " has left" : " have left");
}

// Returns whether the compute stream, in which recorded steps run, has unfinished work.
bool NcclExecutor::is_busy() {
  const cudaStream_t compute = cuda::current_stream();
  if (is_recorded(compute) || cudaStreamQuery(compute) != cudaErrorNotReady) return false;
  cudaGetLastError();
  return true;
}

std::string NcclExecutor::explain_late(const ObservedOperation& operation) {
  auto ranks = observers_.behind(operation.sequence);
  if (!ranks.empty()) return late_text(observers_, members_, ranks, operation.what, timeout_);
  for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
    if (r != rank_) ranks.push_back(r);
  }
  const auto where = observers_.whereabouts(ranks);
  return operation.what + " did not end within " + seconds_text(timeout_) + (where.empty() ? "" : ": " + where);
}

// Stores the failure and reports it. Any thread may call it. The watching thread then aborts the operations.
void NcclExecutor::fail(const std::string& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = failure;
  }
  observers_.failed(failure);
  wake_.notify_all();
  report_to_ranks(*host_->store(), failure);  // the host group must stop too
}

// Returns a function that throws when the host should stop waiting for NCCL. NcclCommunicator calls it repeatedly while
// it connects the ranks, and the watching thread calls it while an operation is being started.
std::function<void()> NcclExecutor::patience_for(const ObservedOperation& operation) {
  return [this, &operation, deadline = Clock::now() + timeout_, look = Clock::now() + patience]() mutable {
    throw_if_failed();
    const auto now = Clock::now();
    if (now > deadline) throw PeerError(explain_late(operation));
    if (now < look) return;
    look = now + look_period;
    if (has_left(next_)) throw PeerError(find_departed() + " while the other ranks wait in " + operation.what);
  };
}

}  // namespace tandem::distributed

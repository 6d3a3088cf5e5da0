#include <tandem/core/backend.h>
#include <tandem/core/cuda/undefined_contents.h>
#include <tandem/distributed/nccl_engine.h>
#include <tandem/distributed/nccl_operations.h>

#include <exception>
#include <sstream>
#include <utility>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds watch_period{2};     // while something runs
constexpr milliseconds idle_period{500};    // while nothing does
constexpr milliseconds look_period{250};    // between two looks at the store
constexpr milliseconds patience{1000};      // with an operation whose peer has left: others may just be slow
constexpr milliseconds leaving_time{10000};  // for NCCL to end in order

// There once the rank has left with everything done.
std::string ended_key(int rank) { return "ended/" + std::to_string(rank); }

std::string seconds_text(milliseconds time) {
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000 << " s";
  return text.str();
}

bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TANDEM_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

std::size_t bytes_of(const Operation& operation) {
  std::size_t bytes = 0;
  for (const auto& input : operation.inputs) bytes += input.bytes();
  for (const auto& output : operation.outputs) bytes += output.bytes();
  return bytes;
}

}  // namespace

struct NcclEngine::Task {
  Operation given;
  Operation flat;
  std::string what;
  std::uint64_t sequence = 0;
  std::uint64_t ticket = 0;
  CudaEvent finished;
  bool recorded = false;  // in a CUDA graph: it runs with that
  bool awaited = false;   // by a stream
  bool done = false;
  std::exception_ptr error;
};

class NcclEngine::NcclWork : public Work {
 public:
  NcclWork(std::shared_ptr<NcclEngine> engine, std::shared_ptr<Task> task)
      : engine_(std::move(engine)), task_(std::move(task)) {}

  bool is_done() const override {
    const std::lock_guard lock(engine_->mutex_);
    return task_->done || task_->recorded || task_->finished.state() != cudaErrorNotReady;
  }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(engine_->mutex_);
    return task_->error;
  }
  void wait() override {
    Operation given, flat;  // let go of outside the lock
    backend(engine_->device_);
    const std::lock_guard lock(engine_->mutex_);
    if (task_->error) std::rethrow_exception(task_->error);
    if (!task_->done) TANDEM_CUDA(cudaStreamWaitEvent(cuda::current_stream(), task_->finished));
    task_->awaited = true;
    // Whatever gets this memory next is computed in this stream too, after the event.
    given = std::exchange(task_->given, {});
    flat = std::exchange(task_->flat, {});
  }
  void wait(milliseconds timeout) override {
    const auto until = Clock::now() + timeout;
    while (!is_done() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(100));
    TANDEM_CHECK(is_done(), task_->what, " is not done after ", seconds_text(timeout));
    wait();
  }

 private:
  std::shared_ptr<NcclEngine> engine_;
  std::shared_ptr<Task> task_;
};

NcclEngine::NcclEngine(std::shared_ptr<ProcessGroup> host, std::shared_ptr<Store> store, Members members,
                       Device device, const ncclUniqueId& id)
    : host_(std::move(host)),
      store_(std::move(store)),
      members_(std::move(members)),
      device_(device),
      rank_(host_->rank()),
      next_((rank_ + 1) % host_->size()),
      timeout_(host_->timeout()) {
  int least = 0, greatest = 0;
  TANDEM_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  TANDEM_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  watchdog_ = std::make_unique<Watchdog>(store_, rank_, members_,
                                         [this](const std::string& failure) { fail(failure); });
  Task task;
  task.what = "connecting the GPUs with NCCL";
  task.sequence = ++started_;
  const auto ticket = watchdog_->begin(task.sequence, task.what, task.what);
  try {
    communicator_ = std::make_unique<NcclCommunicator>(rank_, host_->size(), id, patience_for(task));
  } catch (const std::exception& error) {
    fail(watchdog_->report(error.what()));
    watchdog_.reset();
    cudaStreamDestroy(stream_);
    throw PeerError(failure_);
  }
  watchdog_->end(ticket);
}

void NcclEngine::start_thread() {
  thread_ = std::thread([this] { watch(); });
}

std::string NcclEngine::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void NcclEngine::throw_if_failed() {
  const auto known = failure();
  if (!known.empty()) throw PeerError(known);
}

// How long NCCL may take on the host: while it connects the ranks it needs them.
std::function<void()> NcclEngine::patience_for(const Task& task) {
  return [this, &task, deadline = Clock::now() + timeout_, look = Clock::now() + patience]() mutable {
    throw_if_failed();
    const auto now = Clock::now();
    if (now > deadline) throw PeerError(explain_late(task));
    if (now < look) return;
    look = now + look_period;
    if (has_left(next_)) throw PeerError(find_departed() + " while others wait in " + task.what);
  };
}

std::shared_ptr<Work> NcclEngine::start(Operation operation) {
  for (const auto* arrays : {&operation.inputs, &operation.outputs}) {
    for (const auto& array : *arrays) {
      TANDEM_CHECK(array.device() == device_, operation.what(), ": an array is on ", array.device(),
                   ", but this rank's group is on ", device_,
                   ": all arrays of one operation belong on the GPU of the group");
    }
  }
  backend(device_);
  auto task = std::make_shared<Task>();
  task->what = operation.what();
  task->given = std::move(operation);
  for (const auto& output : task->given.outputs) output.storage()->written_by(task->given.kind_name());
  auto work = std::make_shared<NcclWork>(shared_from_this(), task);
  // Nothing to move is nothing to wait for, on every rank: it does not count as an operation.
  task->done = bytes_of(task->given) == 0;
  if (task->done) return work;

  try {
    const auto known = failure();
    if (!known.empty())
      throw PeerError(task->what + " can't run, the process group is broken: " + known);
    enqueue(*task);
  } catch (const PeerError&) {
    task->error = std::current_exception();
    task->done = true;
    return work;
  }
  const std::lock_guard lock(mutex_);
  recorded_ = recorded_ || task->recorded;
  if (task->recorded) return work;
  if (pending_.empty()) front_since_ = Clock::now();
  pending_.push_back(std::move(task));
  wake_.notify_one();
  return work;
}

// From here on everything happens in order on the GPU: what is in the compute stream, the operation, and after the wait
// what comes next there.
void NcclEngine::enqueue(Task& task) {
  const cudaStream_t compute = cuda::current_stream();
  task.recorded = is_recorded(compute);
  task.flat = contiguous_operation(task.given);
  TANDEM_CUDA(cudaEventRecord(ready_, compute));
  TANDEM_CUDA(cudaStreamWaitEvent(stream_, ready_));
  task.sequence = ++started_;
  task.ticket = watchdog_->begin(task.sequence, task.what, task.given.signature());
  try {
    communicator_->run(
        task.what.c_str(),
        [&](ncclComm_t communicator) { return issue(task.flat, communicator, stream_); },
        patience_for(task));
  } catch (const std::exception& error) {
    // Where a peer or the watching thread was first, theirs is the reason.
    throw_if_failed();
    fail(watchdog_->report(error.what()));
    throw PeerError(failure());
  }
  {
    const cuda::StreamGuard communication(stream_);
    for (std::size_t i = 0; i < task.given.outputs.size(); ++i) {
      Array output = task.given.outputs[i];
      if (task.flat.outputs[i].raw() != output.raw()) output.copy_from(task.flat.outputs[i]);
    }
  }
  TANDEM_CUDA(cudaEventRecord(task.finished, stream_));
  if (task.recorded) watchdog_->end(task.ticket);
}

// --- The watching thread ---

void NcclEngine::watch() {
  backend(device_);
  // Looking at events must not disturb a thread that records a CUDA graph.
  auto mode = cudaStreamCaptureModeRelaxed;
  TANDEM_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  std::unique_lock lock(mutex_);
  while (!(closing_ && pending_.empty()) && failure_.empty()) {
    wake_.wait_for(lock, pending_.empty() ? idle_period : watch_period);
    auto finished = take_finished();
    lock.unlock();
    for (const auto& task : finished) watchdog_->end(task.ticket);
    finished.clear();
    const auto failure = find_failure();
    if (!failure.empty()) fail(watchdog_->report(failure));
    lock.lock();
  }
  if (failure_.empty()) return;
  // What runs now ends with undefined numbers: say so before somebody reads them.
  const auto error = std::make_exception_ptr(PeerError(failure_));
  if (!closing_ && (!pending_.empty() || recorded_)) cuda::mark_undefined(device_.index, error);
  for (const auto& task : pending_) {
    task->error = error;
    task->done = true;
  }
  lock.unlock();
  communicator_->abort();
  lock.lock();
  pending_.clear();  // NCCL no longer touches their arrays
}

// A Work that nobody waits for may live long; its arrays need not. They are let go of outside the lock.
std::vector<NcclEngine::Finished> NcclEngine::take_finished() {
  std::vector<Finished> finished;
  while (!pending_.empty() && pending_.front()->finished.state() == cudaSuccess) {
    Task& task = *pending_.front();
    task.done = true;
    finished.push_back({task.ticket, std::exchange(task.given, {}), std::exchange(task.flat, {})});
    pending_.pop_front();
    front_since_ = Clock::now();
  }
  return finished;
}

// What is wrong; empty: nothing.
std::string NcclEngine::find_failure() {
  std::shared_ptr<Task> front;
  Clock::time_point since;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return "";
    if (!pending_.empty()) front = pending_.front();
    since = front_since_;
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
  if (front && now - since > timeout_) return explain_late(*front);

  if (now - last_look_ < look_period) return "";
  last_look_ = now;
  // Every rank keeps an eye on the next one. Of a recorded step nobody knows when it ends: there it counts only when the
  // next rank has not left in order.
  const bool stuck = (front && now - since > look_period) || (!front && recorded_ && is_busy());
  if (!stuck || members_.size() == 1) {
    neighbour_left_ = false;
    return "";
  }
  if (!has_left(next_) || (!front && store_->check({ended_key(next_)}))) return "";
  if (!std::exchange(neighbour_left_, true)) left_since_ = now;
  if (now - left_since_ < patience || (front && since > left_since_)) return "";
  const auto departed = find_departed();
  return departed.empty() ? "" : departed + " while others wait in " + what;
}

// Without a store nobody knows; then the timeout is what remains.
bool NcclEngine::has_left(int rank) {
  try {
    return rank != rank_ && host_->store()->check({left_key(rank)});
  } catch (const std::exception&) {
    return false;
  }
}

// "rank 1 (host, pid 4711) has left"; empty: none has.
std::string NcclEngine::find_departed() {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
    if (has_left(r)) ranks.push_back(r);
  }
  if (ranks.empty()) return "";
  return names_of(members_, ranks) + (ranks.size() == 1 ? " has left" : " have left");
}

// Whether the GPU still works on what was started in the compute stream, where recorded steps run.
bool NcclEngine::is_busy() {
  const cudaStream_t compute = cuda::current_stream();
  if (is_recorded(compute) || cudaStreamQuery(compute) != cudaErrorNotReady) return false;
  cudaGetLastError();
  return true;
}

std::string NcclEngine::explain_late(const Task& task) {
  auto ranks = watchdog_->behind(task.sequence);
  std::string text = " within " + seconds_text(timeout_);
  if (ranks.empty()) {
    for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
      if (r != rank_) ranks.push_back(r);
    }
    text = task.what + " did not end" + text;
  } else {
    text = names_of(members_, ranks) + " did not come" + text + " to " + task.what;
  }
  const auto where = watchdog_->whereabouts(ranks);
  return where.empty() ? text : text + ": " + where;
}

// Any thread. The watching one does the rest.
void NcclEngine::fail(const std::string& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = failure;
  }
  wake_.notify_all();
  try {
    host_->store()->compare_set(failure_key, "", failure);  // nothing goes on over the host either
  } catch (const std::exception&) {
    // Without a store the others see this rank leave.
  }
}

void NcclEngine::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const auto& task : pending_) {
      if (!task->awaited && failure_.empty())
        failure_ = "the process group was destroyed while " + task->what + " was running";
    }
  }
  wake_.notify_all();
  thread_.join();
  try {
    if (failure().empty() && std::uncaught_exceptions() == 0) store_->set(ended_key(rank_), "");
    const auto deadline = Clock::now() + leaving_time;
    communicator_->close([&] {
      throw_if_failed();
      if (Clock::now() > deadline) throw Error("NCCL does not end");
    });
  } catch (const std::exception&) {
    communicator_->abort();
  }
  watchdog_.reset();
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = "the process group was destroyed";
  }
  cudaStreamDestroy(stream_);
}

// --- Memory ---

Array NcclEngine::allocate(const Shape& shape, DType dtype) {
  auto array = Array::empty(shape, dtype, device_);
  array.fill(0);
  void* handle = communicator_->remember(array.raw(), array.bytes());
  if (!handle) return array;
  // NCCL must forget it before the allocator hands it to somebody else or back to the driver.
  auto release = [memory = array.storage(), engine = weak_from_this(), handle] {
    if (const auto alive = engine.lock()) alive->communicator_->forget(handle);
  };
  auto storage = std::make_shared<Storage>(array.raw(), array.bytes(), device_, std::move(release));
  return Array(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

}  // namespace tandem::distributed

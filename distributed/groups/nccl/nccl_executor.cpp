#include <tandem/core/backend/backend.h>
#include <tandem/core/base/thread.h>
#include <tandem/core/ops/create.h>
#include <tandem/distributed/groups/executor.h>
#include <tandem/distributed/groups/nccl/nccl_executor.h>
#include <tandem/distributed/groups/signs_of_life.h>

#include <exception>
#include <utility>

namespace tandem::distributed {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds leaving_time{10000};  // the longest wait for NCCL to end in order

}  // namespace

std::string ended_key(int rank) { return "ended/" + std::to_string(rank); }

bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TANDEM_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

class NcclExecutor::NcclWork : public Work {
 public:
  NcclWork(std::shared_ptr<NcclExecutor> executor, std::shared_ptr<Task> task)
      : executor_(std::move(executor)), task_(std::move(task)) {}

  bool is_done() const override {
    const std::lock_guard lock(executor_->mutex_);
    return task_->done || task_->recorded || task_->finished.state() != cudaErrorNotReady;
  }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(executor_->mutex_);
    return task_->error;
  }
  void wait() override {
    Operation given, contiguous;  // released outside the lock
    std::optional<NanMarks> marks;
    backend(executor_->device_);
    const std::lock_guard lock(executor_->mutex_);
    if (task_->error) std::rethrow_exception(task_->error);
    if (!task_->done) TANDEM_CUDA(cudaStreamWaitEvent(cuda::current_stream(), task_->finished));
    task_->awaited = true;
    // The memory can be released now. Its next user will use it in the same stream, after the event.
    given = std::exchange(task_->given, {});
    contiguous = std::exchange(task_->contiguous, {});
    marks = std::exchange(task_->marks, {});
    if (marks) marks->write();
  }
  void wait(milliseconds timeout) override {
    await_done(*this, task_->what, timeout);
    wait();
  }

 private:
  std::shared_ptr<NcclExecutor> executor_;
  std::shared_ptr<Task> task_;
};

NcclExecutor::NcclExecutor(std::shared_ptr<ProcessGroup> host, std::shared_ptr<Store> store, Members members,
                           Device device, const Observers& observers, const ncclUniqueId& id)
    : host_(std::move(host)),
      store_(std::move(store)),
      members_(std::move(members)),
      device_(device),
      rank_(host_->rank()),
      next_((rank_ + 1) % host_->size()),
      timeout_(host_->timeout()),
      observers_(observers, {store_, "nccl", rank_, members_, [this](const std::string& failure) { fail(failure); }}) {
  int least = 0, greatest = 0;
  TANDEM_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  TANDEM_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  const Operation connect{.kind = Operation::Kind::barrier, .name = "connecting the GPUs with NCCL"};
  ObservedOperation connecting(observers_, connect, ++started_, connect.name);
  connecting.set_running();
  try {
    communicator_ = std::make_unique<NcclCommunicator>(rank_, host_->size(), id, patience_for(connecting));
  } catch (const std::exception& error) {
    fail(report_to_ranks(*store_, error.what()));
    observers_.close();
    cudaStreamDestroy(stream_);
    throw PeerError(failure_);
  }
  connecting.end(false);
  thread_ = start_thread("the thread that watches NCCL", [this] { watch(); });
}

std::string NcclExecutor::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void NcclExecutor::throw_if_failed() {
  const auto known = failure();
  if (!known.empty()) throw PeerError(known);
}

std::shared_ptr<Work> NcclExecutor::start(Operation operation) {
  for (const auto* arrays : {&operation.inputs, &operation.outputs}) {
    for (const auto& array : *arrays) {
      TANDEM_CHECK(array.device() == device_, operation.what(), ": an array is on ", array.device(),
                   ", but this rank's group is on ", device_,
                   ": all arrays of an operation must be on the group's GPU");
    }
  }
  backend(device_);
  auto task = std::make_shared<Task>();
  task->what = operation.what();
  task->given = std::move(operation);
  mark_written(task->given);
  auto work = std::make_shared<NcclWork>(shared_from_this(), task);
  // If there are no bytes to move, no rank waits for another, and the operation gets no number.
  task->done = task->given.bytes() == 0;
  if (task->done) return work;

  const std::lock_guard starting(starting_);
  try {
    const auto known = failure();
    if (!known.empty()) throw PeerError(broken_text(task->what, known));
    enqueue(*task);
  } catch (const PeerError&) {
    task->error = std::current_exception();
    task->done = true;
    return work;
  }
  const std::lock_guard lock(mutex_);
  if (const auto graph = task->recorded ? cuda::recorded_graph() : nullptr) {
    std::erase_if(graphs_, [&](const auto& one) { return one.expired() || one.lock() == graph; });
    graphs_.push_back(graph);
  }
  if (!failure_.empty()) {  // the watching thread has already stopped
    task->error = std::make_exception_ptr(PeerError(failure_));
    task->done = true;
  }
  if (task->recorded || task->done) return work;
  if (pending_.empty()) front_since_ = Clock::now();
  pending_.push_back(std::move(task));
  wake_.notify_one();
  return work;
}

// Puts an operation into the group's stream. The GPU starts it after all work that is in the compute stream now.
void NcclExecutor::enqueue(Task& task) {
  const cudaStream_t compute = cuda::current_stream();
  task.recorded = is_recorded(compute);
  task.contiguous = adjacent(contiguous_on(device_, task.given));
  task.marks = NanMarks::of(task.contiguous, task.given);
  TANDEM_CUDA(cudaEventRecord(ready_, compute));
  TANDEM_CUDA(cudaStreamWaitEvent(stream_, ready_));
  ObservedOperation& operation = task.observed.emplace(observers_, task.given, ++started_, task.what);
  operation.set_running();
  const auto set_patience = [this](std::function<void()> patience) {
    const std::lock_guard lock(patience_mutex_);
    patience_ = std::move(patience);
  };
  try {
    set_patience(patience_for(operation));
    communicator_->run(
        task.what.c_str(),
        [&](ncclComm_t communicator) { return issue(task.contiguous, task.marks, communicator, stream_); },
        patience_for(operation));
    set_patience({});
  } catch (const std::exception& error) {
    set_patience({});
    operation.end(true);
    // If a peer or the watching thread reported a failure first, that reason counts.
    throw_if_failed();
    fail(report_to_ranks(*store_, error.what()));
    throw PeerError(failure());
  }
  {
    const cuda::StreamGuard communication(stream_);
    copy_back(task.contiguous, task.given);
  }
  TANDEM_CUDA(cudaEventRecord(task.finished, stream_));
  if (task.recorded) operation.end(false);
}

// When a communicator ends, NCCL waits, possibly forever, for the graphs that hold its kernels.
void NcclExecutor::break_off_graphs(const std::string& why) {
  const auto cause = std::make_exception_ptr(PeerError("a recorded step can't be replayed any more: " + why));
  const std::lock_guard lock(mutex_);
  for (const auto& one : std::exchange(graphs_, {})) {
    if (const auto graph = one.lock()) graph->break_off(cause);
  }
}

void NcclExecutor::close() {
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
  const auto known = failure();
  break_off_graphs(known.empty() ? "its process group was destroyed" : known);
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
  observers_.close();
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = "the process group was destroyed";
  }
  cudaStreamDestroy(stream_);
}

Array NcclExecutor::allocate(const Shape& shape, DType dtype) {
  const auto array = ops::zeros(shape, dtype, device_);
  void* handle = communicator_->remember(array.raw(), array.bytes());
  if (!handle) return array;
  // NCCL must forget the memory before the allocator reuses it or returns it to the driver.
  auto release = [memory = array.storage(), executor = weak_from_this(), handle] {
    if (const auto alive = executor.lock()) alive->communicator_->forget(handle);
  };
  auto storage = std::make_shared<Storage>(array.raw(), array.bytes(), device_, std::move(release));
  return Array(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

}  // namespace tandem::distributed

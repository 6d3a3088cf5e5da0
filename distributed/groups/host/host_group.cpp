#include <tandem/core/profile/profile.h>
#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/watchdog.h>

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <thread>

namespace tandem::distributed {
namespace {

using Kind = Operation::Kind;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Whoever starts a small operation mostly waits for it at once, and then runs it without the help of another
// thread. The communication thread leaves such operations alone for a moment.
constexpr std::size_t small_bytes = std::size_t{1} << 20;
constexpr std::chrono::microseconds small_delay{200};

std::string seconds_text(Milliseconds time) { return fmt::format("{} s", static_cast<double>(time.count()) / 1000); }

// The same operation on contiguous arrays in host memory: the given ones where they are that, else copies of the
// inputs and room for the outputs. Reading an array on a GPU waits for the GPU.
Operation flatten(const Operation& given) {
  Operation flat = given;
  for (auto& input : flat.inputs) input = input.to(Device{}).contiguous();
  const bool reads_outputs = flat.inputs.empty();
  for (auto& output : flat.outputs) {
    if (output.device().is_cpu() && output.is_contiguous()) continue;
    output = reads_outputs ? output.to(Device{}).contiguous() : Array::empty(output.shape(), output.dtype());
  }
  return flat;
}

void copy_back(const Operation& given, const Operation& flat) {
  for (std::size_t i = 0; i < given.outputs.size(); ++i) {
    if (flat.outputs[i].raw() != given.outputs[i].raw()) Array(given.outputs[i]).copy_from(flat.outputs[i]);
  }
}

std::size_t bytes_of(const Operation& operation) {
  std::size_t bytes = 0;
  for (const auto& input : operation.inputs) bytes += input.bytes();
  for (const auto& output : operation.outputs) bytes += output.bytes();
  return bytes;
}

// What the group, its works and its threads share.
class HostExecutor : public std::enable_shared_from_this<HostExecutor> {
 public:
  HostExecutor(std::shared_ptr<Store> store, Members members, const GroupOptions& options,
               std::unique_ptr<HostTransport> transport)
      : options_(options),
        members_(std::move(members)),
        transport_(std::move(transport)),
        watchdog_(std::make_unique<Watchdog>(std::move(store), options.rank, members_,
                                             [this](const std::string& failure) { fail(failure); })) {}

  void start_thread() {
    thread_ = std::thread([this] {
      Profile::name_thread("communication");
      run();
    });
  }

  void close() {
    {
      std::unique_lock lock(mutex_);
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

  class QueuedWork;
  class TransferWork;
  std::shared_ptr<Work> start(Operation operation);

  HostTransport& backend() { return *transport_; }
  const GroupOptions& options() const { return options_; }
  const Members& members() const { return members_; }

 private:
  struct Task;

  std::shared_ptr<Work> start_transfer(Operation operation);
  void run();
  void run_front(std::unique_lock<std::mutex>& lock, bool may_spin);
  std::string attempt(Task& task, bool may_spin);
  std::string explain(const std::string& what, const std::string& signature, const std::exception& exception);
  void fail(const std::string& failure);

  const GroupOptions options_;
  const Members members_;
  std::unique_ptr<HostTransport> transport_;
  std::uint64_t started_ = 0;  // collectives; only the thread that starts them

  std::mutex mutex_;                 // guards everything below
  std::condition_variable wake_;     // the communication thread
  std::condition_variable changed_;  // those who wait for works
  std::deque<std::shared_ptr<Task>> queue_;
  std::string failure_;  // the first one; empty: none
  bool busy_ = false;    // some thread runs an operation
  bool closing_ = false;
  int transfers_ = 0;  // threads that wait in one

  std::unique_ptr<Watchdog> watchdog_;
  std::thread thread_;
};

struct HostExecutor::Task {
  Operation given;
  Operation flat;
  Call call;
  Clock::time_point queued = Clock::now();
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
    TANDEM_CHECK(done, task_->given.what(), " is not done after ", seconds_text(timeout));
    if (task_->error) std::rethrow_exception(task_->error);
  }

 private:
  std::shared_ptr<HostExecutor> executor_;
  std::shared_ptr<Task> task_;
};

class HostExecutor::TransferWork : public Work {
 public:
  TransferWork(std::shared_ptr<HostExecutor> executor, Operation given, Operation flat,
               std::unique_ptr<Transfer> transfer)
      : executor_(std::move(executor)),
        given_(std::move(given)),
        flat_(std::move(flat)),
        transfer_(std::move(transfer)),
        deadline_(Clock::now() + executor_->options_.timeout) {}

  bool is_done() const override {
    const std::lock_guard lock(mutex_);
    if (done_) return true;
    // Held, so that the backend that the transfer belongs to stays until it has answered.
    const std::lock_guard executor_lock(executor_->mutex_);
    return !executor_->failure_.empty() || transfer_->is_done();
  }
  std::exception_ptr exception() const override {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void wait() override { finish(deadline_); }
  void wait(Milliseconds timeout) override {
    const auto until = Clock::now() + timeout;
    while (!is_done() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(100));
    TANDEM_CHECK(is_done(), given_.what(), " is not done after ", seconds_text(timeout));
    finish(deadline_);
  }

 private:
  void finish(Clock::time_point deadline) {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      try {
        complete(deadline);
      } catch (const std::exception&) {
        error_ = std::current_exception();
      }
      done_ = true;
      transfer_.reset();
      flat_ = {};
      given_.inputs.clear();
      given_.outputs.clear();
    }
    if (error_) std::rethrow_exception(error_);
  }

  void complete(Clock::time_point deadline) {
    const std::string what =
        given_.what() + (given_.kind == Kind::send ? " to " : " from ") + executor_->members_[given_.root].name();
    std::string failure;
    {
      const std::lock_guard lock(executor_->mutex_);
      failure = executor_->failure_;
      if (failure.empty()) ++executor_->transfers_;
    }
    if (!failure.empty()) throw PeerError(what + " can't run, the process group is broken: " + failure);
    const auto ticket = executor_->watchdog_->begin(0, what, "");
    try {
      transfer_->wait(deadline);
    } catch (const std::exception& exception) {
      failure = executor_->explain(what, "", exception);
    }
    executor_->watchdog_->end(ticket);
    if (!failure.empty()) failure = executor_->watchdog_->report(failure);
    {
      const std::lock_guard lock(executor_->mutex_);
      --executor_->transfers_;
      if (!failure.empty() && executor_->failure_.empty()) executor_->failure_ = failure;
      executor_->changed_.notify_all();
    }
    if (!failure.empty()) throw PeerError(failure);
    copy_back(given_, flat_);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<HostExecutor> executor_;
  Operation given_;
  Operation flat_;
  std::unique_ptr<Transfer> transfer_;
  const Clock::time_point deadline_;
  bool done_ = false;
  std::exception_ptr error_;
};

std::shared_ptr<Work> HostExecutor::start(Operation operation) {
  if (operation.kind == Kind::send || operation.kind == Kind::receive) return start_transfer(std::move(operation));
  auto task = std::make_shared<Task>();
  task->flat = flatten(operation);
  for (const auto& output : operation.outputs) output.storage()->written_by(operation.kind_name());
  // Nothing to move is nothing to wait for, on every rank: it does not count as an operation.
  const bool moves = operation.kind == Kind::barrier || bytes_of(operation) > 0;
  task->call = {moves ? ++started_ : 0, operation.signature(), {}, false};
  task->small = bytes_of(operation) <= small_bytes;
  task->given = std::move(operation);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(task);
  }
  wake_.notify_one();
  return std::make_shared<QueuedWork>(shared_from_this(), std::move(task));
}

std::shared_ptr<Work> HostExecutor::start_transfer(Operation operation) {
  Operation flat = flatten(operation);
  std::unique_ptr<Transfer> transfer;
  if (operation.kind == Kind::send) {
    transfer = transport_->send(flat.inputs[0].raw(), flat.inputs[0].bytes(), operation.root);
  } else {
    operation.outputs[0].storage()->written_by(operation.kind_name());
    transfer = transport_->receive(flat.outputs[0].raw(), flat.outputs[0].bytes(), operation.root);
  }
  return std::make_shared<TransferWork>(shared_from_this(), std::move(operation), std::move(flat), std::move(transfer));
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
    error = task->given.what() + " can't run, the process group is broken: " + failure_;
  }
  // Let go of the arrays: whoever waited may count on being their only owner.
  task->flat = {};
  task->given.inputs.clear();
  task->given.outputs.clear();
  if (!error.empty()) task->error = std::make_exception_ptr(PeerError(error));
  task->done = true;
  changed_.notify_all();
  if (!queue_.empty() || closing_) wake_.notify_one();
}

// What went wrong; "" for success.
std::string HostExecutor::attempt(Task& task, bool may_spin) {
  ProfileRange range(task.given.kind_name());
  range.note("name", task.given.name);
  range.note("bytes", static_cast<std::int64_t>(bytes_of(task.given)));
  const std::string what = task.given.what();
  task.call.may_spin = may_spin;
  task.call.deadline = Clock::now() + options_.timeout;
  const auto ticket = watchdog_->begin(task.call.sequence, what, task.call.signature);
  std::string failure;
  try {
    if (task.call.sequence > 0) transport_->run(task.flat, task.call);
    copy_back(task.given, task.flat);
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
  }
  watchdog_->end(ticket);
  return failure;
}

// What happened, in terms of ranks.
std::string HostExecutor::explain(const std::string& what, const std::string& signature,
                                  const std::exception& exception) {
  if (const auto* gone = dynamic_cast<const PeerGone*>(&exception))
    return members_[gone->rank].name() + " closed the connection during " + what;
  if (const auto* late = dynamic_cast<const PeersLate*>(&exception)) {
    const std::string where = watchdog_->whereabouts(late->ranks);
    return names_of(members_, late->ranks) + " did not come within " + seconds_text(options_.timeout) + " to " + what +
           (where.empty() ? "" : ": " + where);
  }
  if (const auto* differs = dynamic_cast<const PeerDiffers*>(&exception)) {
    return "the ranks do not run the same operations: " + members_[options_.rank].name() + " runs " + what + " (" +
           signature + "), " + members_[differs->rank].name() + " runs " + differs->theirs;
  }
  return what + " failed: " + exception.what();
}

// From the watchdog: something is wrong elsewhere.
void HostExecutor::fail(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = failure;
  transport_->break_off();
}

class HostGroup : public ProcessGroup {
 public:
  HostGroup(std::shared_ptr<Store> store, const GroupOptions& options, int job_rank)
      : store_(std::move(store)), options_(options) {
    store_->set_when_gone(left_key(options.rank));
    const bool may_share = options.backend == "auto" || options.backend == "shm";
    auto members = meet(*store_, options.rank, options.size, job_rank,
                        may_share ? shared_memory_problem(options.size) : "", options.timeout);
    auto transport = connect(members);
    executor_ = std::make_shared<HostExecutor>(store_, std::move(members), options, std::move(transport));
    name_ = executor_->backend().name();
    executor_->start_thread();
  }
  ~HostGroup() override {
    executor_->close();
    try {
      store_->set(left_key(rank()), "");
    } catch (const std::exception&) {
      // Without a store nobody is there to read it.
    }
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  const char* backend() const override { return name_; }
  std::shared_ptr<Store> store() const override { return store_; }
  Milliseconds timeout() const override { return options_.timeout; }
  Array allocate(const Shape& shape, DType dtype, Device device) override {
    if (device.is_cpu()) return executor_->backend().allocate(shape, dtype);
    auto array = Array::empty(shape, dtype, device);
    array.fill(0);
    return array;
  }

  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override {
    GroupOptions options = options_;
    options.rank = -1;
    options.size = static_cast<int>(ranks.size());
    if (no_sharing_) options.backend = "gloo";
    std::string list;
    std::vector<char> seen(static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int r = ranks[i];
      TANDEM_CHECK(r >= 0 && r < size(), "rank ", r, " of a subgroup is not in this group of ", size());
      TANDEM_CHECK(!seen[r]++, "rank ", r, " is named twice in a subgroup");
      if (r == rank()) options.rank = static_cast<int>(i);
      list += (i == 0 ? "" : ",") + std::to_string(r);
    }
    const std::string key = "subgroup/" + std::to_string(++subgroups_);
    const std::string agreed = store_->compare_set(key, "", list);
    TANDEM_CHECK(agreed == list, "rank ", rank(), " asks for a subgroup of ranks ", list,
                 ", another rank for one of ranks ", agreed,
                 ": all ranks must make the same subgroups in the same order");
    if (options.rank < 0) return nullptr;
    return std::make_shared<HostGroup>(prefix_store(key, store_), options, executor_->members()[rank()].rank);
  }

  std::shared_ptr<Work> start(Operation operation) override { return executor_->start(std::move(operation)); }

 private:
  std::unique_ptr<HostTransport> connect(const Members& members) {
    if (options_.backend == "mpi") return mpi_transport(*store_, members, options_);
    bool shares = options_.backend == "shm" || (options_.backend == "auto" && share_a_host(members));
    for (const auto& member : members) {
      if (!shares || member.cannot_share.empty()) continue;
      const auto problem = member.name() + ": " + member.cannot_share;
      if (options_.backend != "auto") give_up(problem);
      shares = false;
      no_sharing_ = true;
      if (rank() == 0) std::cerr << "note: the ranks communicate over TCP: " << problem << std::endl;
    }
    return shares ? shared_memory_transport(*store_, members, options_) : gloo_transport(store_, members, options_);
  }

  // All ranks find the same problem. Rank 0, which may be serving the store, leaves last.
  [[noreturn]] void give_up(const std::string& problem) {
    store_->set(left_key(rank()), "");
    std::vector<std::string> others;
    for (int r = 1; r < size(); ++r) others.push_back(left_key(r));
    try {
      if (rank() == 0) store_->wait(others, std::chrono::seconds(2));
    } catch (const Error&) {
    }
    detail::fail(problem);
  }

  const std::shared_ptr<Store> store_;  // rank 0 may be serving it, and the others be still connecting
  const GroupOptions options_;
  std::shared_ptr<HostExecutor> executor_;
  const char* name_ = "";
  bool no_sharing_ = false;  // of memory, though all are on one host
  int subgroups_ = 0;
};

}  // namespace

Array HostTransport::allocate(const Shape& shape, DType dtype) {
  auto array = Array::empty(shape, dtype);
  array.fill(0);
  return array;
}

std::shared_ptr<ProcessGroup> host_group(std::shared_ptr<Store> store, const GroupOptions& options) {
  TANDEM_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size, "rank ", options.rank,
               " is not in a group of ", options.size);
  TANDEM_CHECK(options.timeout > Milliseconds::zero(), "a process group needs a timeout above 0");
  const auto& backend = options.backend;
  TANDEM_CHECK(backend == "auto" || backend == "gloo" || backend == "shm" || backend == "mpi", "backend '", backend,
               "' is none of auto, gloo, shm and mpi");
  return std::make_shared<HostGroup>(std::move(store), options, options.rank);
}

}  // namespace tandem::distributed

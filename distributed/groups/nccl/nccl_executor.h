// NcclExecutor: a group's operations on one GPU, from start() until the GPU has done them.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/core/cuda/event.h>
#include <tandem/core/cuda/graph.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/nccl/nccl_communicator.h>
#include <tandem/distributed/groups/nccl/nccl_operations.h>
#include <tandem/distributed/groups/observed_operation.h>
#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {

// Returns whether a CUDA graph is being recorded in `stream`.
bool is_recorded(cudaStream_t stream);
// A key of the executor's store, there once the rank has left with everything done.
std::string ended_key(int rank);

// Any thread may call start(). The executor's own thread, the watching thread, looks at the operations that
// run. It lets go of the arrays of those that are done. When an operation fails, does not end in time or is left alone
// by a peer, it stops NCCL. The first failure is the whole group's, on all ranks.
class NcclExecutor : public std::enable_shared_from_this<NcclExecutor> {
 public:
  // `store` is this executor's own part of the host group's, which is told of a failure too.
  NcclExecutor(std::shared_ptr<ProcessGroup> host, std::shared_ptr<Store> store, Members members, Device device,
               const Observers& observers, const ncclUniqueId& id);

  // `operation` is on arrays of the device, and neither a barrier nor a message.
  std::shared_ptr<Work> start(Operation operation);
  // Ends the running operations: cleanly if the program has waited for all of them, else at once.
  void close();

  // Zeros that NCCL knows. They may outlive the executor.
  Array allocate(const Shape& shape, DType dtype);

  std::string failure();
  const Members& members() const { return members_; }

 private:
  using Clock = RunningTime;
  // One thread has a task to itself until the task is in pending_. From then on mutex_ guards it.
  struct Task {
    Operation given;
    Operation contiguous;
    std::optional<NanMarks> marks;
    std::string what;
    std::optional<ObservedOperation> observed;  // once it is given to NCCL
    cuda::CudaEvent finished;
    bool recorded = false;  // in a CUDA graph: the operation runs when the graph does
    bool awaited = false;   // a stream waits for it
    bool done = false;
    std::exception_ptr error;
  };
  class NcclWork;
  struct Finished {
    std::shared_ptr<Task> task;
    Operation given, contiguous;
  };

  void enqueue(Task& task);
  void watch();
  std::vector<Finished> take_finished();
  std::string find_failure();
  bool has_left(int rank);
  std::string find_departed();
  bool is_busy();
  std::string explain_late(const ObservedOperation& operation);
  void fail(const std::string& failure);
  void break_off_graphs(const std::string& why);
  void throw_if_failed();
  std::function<void()> patience_for(const ObservedOperation& operation);

  const std::shared_ptr<ProcessGroup> host_;
  const std::shared_ptr<Store> store_;
  const Members members_;
  const Device device_;
  const int rank_, next_;
  const std::chrono::milliseconds timeout_;
  cudaStream_t stream_ = nullptr;
  cuda::CudaEvent ready_;      // where the compute stream is when an operation is started
  std::mutex starting_;        // one thread at a time gives NCCL an operation
  std::uint64_t started_ = 0;  // guarded by starting_; collectives
  std::unique_ptr<NcclCommunicator> communicator_;

  // Looks after the operation that is being started; empty when none is. The watching thread calls it.
  std::function<void()> patience_;
  std::mutex patience_mutex_;  // guards patience_, also while it runs

  std::mutex mutex_;
  std::condition_variable wake_;               // the watching thread waits here
  std::deque<std::shared_ptr<Task>> pending_;  // guarded by mutex_; started, and not seen to be done
  Clock::time_point front_since_;              // guarded by mutex_; since when the first of pending_ is the first
  std::string failure_;                        // guarded by mutex_; the first failure; empty: none
  // Guarded by mutex_: the CUDA graphs that hold operations of this group.
  std::vector<std::weak_ptr<cuda::ExecutableGraph>> graphs_;
  bool closing_ = false;      // guarded by mutex_
  GroupObservers observers_;  // their threads may call fail()

  // Used by the watching thread alone.
  Clock::time_point last_look_;   // at the store
  bool neighbour_left_ = false;   // the next rank has left while the GPU waits for something
  Clock::time_point left_since_;  // since when neighbour_left_ has been true

  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace tandem::distributed

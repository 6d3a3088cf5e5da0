// NcclExecutor: runs a group's operations on one GPU, from start() until the GPU has finished them.
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
// A key of the executor's store. The rank sets it when it leaves after finishing all operations.
std::string ended_key(int rank);

// Any thread may call start(). The executor's own thread, the watching thread, polls the running operations, and
// releases the arrays of operations that are done. It stops NCCL when an operation fails, does not end in time, or
// waits for a peer that has left. The first failure counts for the whole group, on all ranks.
class NcclExecutor : public std::enable_shared_from_this<NcclExecutor> {
 public:
  // `store` is the executor's own part of the host group's store. The executor also reports a failure to the host
  // group.
  NcclExecutor(std::shared_ptr<ProcessGroup> host, std::shared_ptr<Store> store, Members members, Device device,
               const Observers& observers, const ncclUniqueId& id);

  // The arrays of `operation` are on the device. It must not be a barrier or a message.
  std::shared_ptr<Work> start(Operation operation);
  // Lets the running operations finish if the program has waited for all of them. Otherwise aborts them.
  void close();

  // Returns zeros in memory that is registered with NCCL. The array may outlive the executor.
  Array allocate(const Shape& shape, DType dtype);

  std::string failure();
  const Members& members() const { return members_; }

 private:
  using Clock = RunningTime;
  // A task belongs to the thread that starts it until it is in pending_. From then on, mutex_ guards it.
  struct Task {
    Operation given;
    Operation contiguous;
    std::optional<NanMarks> marks;
    std::string what;
    std::optional<ObservedOperation> observed;  // set when the operation is passed to NCCL
    cuda::CudaEvent finished;
    bool recorded = false;  // into a CUDA graph; the operation runs whenever the graph runs
    bool awaited = false;   // whether a stream waits for it
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
  cuda::CudaEvent ready_;      // marks the end of the compute stream when an operation is started
  std::mutex starting_;        // held by the thread that passes an operation to NCCL
  std::uint64_t started_ = 0;  // guarded by starting_; collectives
  std::unique_ptr<NcclCommunicator> communicator_;

  // Throws if the operation that is being started should give up. Empty if none is. The watching thread calls it.
  std::function<void()> patience_;
  std::mutex patience_mutex_;  // guards patience_, also while it runs

  std::mutex mutex_;
  std::condition_variable wake_;               // the watching thread waits here
  std::deque<std::shared_ptr<Task>> pending_;  // guarded by mutex_; started, and not known to be done
  Clock::time_point front_since_;              // guarded by mutex_; when pending_.front() became the first
  std::string failure_;                        // guarded by mutex_; the first failure; empty: none
  // Guarded by mutex_. The CUDA graphs that hold operations of this group.
  std::vector<std::weak_ptr<cuda::ExecutableGraph>> graphs_;
  bool closing_ = false;      // guarded by mutex_
  GroupObservers observers_;  // their threads may call fail()

  // Only the watching thread uses these members.
  Clock::time_point last_look_;   // when it last checked the store
  bool neighbour_left_ = false;   // whether the next rank has left while the GPU is still waiting
  Clock::time_point left_since_;  // when neighbour_left_ became true

  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace tandem::distributed

// HostExecutor: runs a group's operations on arrays in host memory, from start() until a transport has moved their
// bytes.
#pragma once

#include <tandem/distributed/groups/host/host_group.h>
#include <tandem/distributed/groups/host/host_transport.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/observed_operation.h>

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace tandem::distributed {

// Collectives wait in a queue and run one after the other, either on the thread that waits for a collective or on the
// executor's own communication thread. Messages between two ranks do not wait in the queue: the transport starts them
// at once. The group and each Work of the group share ownership of the executor, because a Work may outlive the group.
class HostExecutor : public std::enable_shared_from_this<HostExecutor> {
 public:
  HostExecutor(std::shared_ptr<Store> store, Members members, const GroupOptions& options,
               std::unique_ptr<HostTransport> transport);

  std::shared_ptr<Work> start(Operation operation);
  // Aborts the operations that are still running, and waits until they have ended. It destroys the transport, so no
  // operation can be started afterwards. A Work that outlives the group can still be asked for its result.
  void close();

  HostTransport& transport() { return *transport_; }
  const Members& members() const { return members_; }

 private:
  struct Task;
  class QueuedWork;
  class TransferWork;

  std::shared_ptr<Work> start_transfer(Operation operation);
  void run();
  // Runs the first operation of the queue. `lock` holds mutex_ and is released while the operation runs.
  void run_front(std::unique_lock<std::mutex>& lock, bool may_spin);
  std::string run_collective(Task& task, bool may_spin);
  // Runs `operation` by calling `move`, and tells the observers. Returns the error, or an empty string after success.
  std::string run_observed(ObservedOperation& operation, const std::function<void()>& move);
  std::string reason_of(const ObservedOperation& operation, const std::exception& exception);
  std::string explain(const ObservedOperation& operation, const std::exception& exception);
  void fail(const std::string& failure);

  const GroupOptions options_;
  const Members members_;
  const pid_t process_ = getpid();
  std::shared_ptr<Store> store_;  // null after close()
  std::unique_ptr<HostTransport> transport_;
  std::mutex starting_;        // held by the thread that starts an operation
  std::uint64_t started_ = 0;  // guarded by starting_; collectives

  std::mutex mutex_;
  std::condition_variable wake_;             // the communication thread waits here
  std::condition_variable changed_;          // threads that wait for a Work wait here
  std::deque<std::shared_ptr<Task>> queue_;  // guarded by mutex_
  std::string failure_;                      // guarded by mutex_; the first failure; empty: none
  bool busy_ = false;                        // guarded by mutex_; whether a thread is running a collective
  bool closing_ = false;                     // guarded by mutex_
  int transfers_ = 0;                        // guarded by mutex_; the number of threads that wait for a message

  GroupObservers observers_;  // their threads may call fail()
  std::thread thread_;        // the last member: it uses all the others
};

}  // namespace tandem::distributed

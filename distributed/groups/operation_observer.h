// OperationObserver: is told about the progress of each operation of a process group on this rank.
#pragma once

#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/operation.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::distributed {

class ObservedOperation;

// The group whose operations are observed. `members` lives as long as the observers do.
struct ObservedGroup {
  std::shared_ptr<Store> store;
  const char* backend;  // as ProcessGroup::backend()
  int rank;
  const Members& members;
  // Aborts the group's operations on this rank. All waiting threads throw an error with `reason`. Any thread may call
  // it until the observer is destroyed.
  std::function<void(const std::string& reason)> fail;
};

// An observer belongs to one group. Several operations of the group may run at once, so several threads may call an
// observer at once:
//
// - started: the thread that called the operation.
// - running, ended: the thread that runs the operation, the same for both. No host thread runs an operation on a GPU:
//   there, running is called by the thread that called the operation, and ended by the thread that notices that the GPU
//   has finished the operation or that the group has failed. While a step is recorded, the recording thread calls
//   ended.
// - failed: any thread.
//
// The executor waits for each call, sometimes with its lock held. For this reason, an observer must return soon, must
// not wait for another rank, and must not call its group. The exception is ObservedGroup::fail, which it may call on
// its own thread. An observer must not throw, because observing an operation must not make it fail. An exception that
// leaves one of these functions terminates the process.
//
// local_group() has no observers, because its operations never wait.
class OperationObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Called when the group ends. All operations that ran have ended.
  virtual ~OperationObserver() = default;

  // Called when the program has started an operation, so its Work exists. The observer may access the arrays only
  // during this call. The returned number is passed to all later calls about this operation.
  virtual std::uint64_t started(const ObservedOperation&, const Operation&) noexcept { return 0; }
  // Called when this rank begins to take part in the operation. From then on, it may wait for other ranks. A collective
  // whose turn comes after the group has failed ends without having run. A message runs when a thread waits for it. If
  // no thread does, or if the group has failed by then, neither running() nor ended() is called for the message.
  virtual void running(const ObservedOperation&, std::uint64_t /*number*/, Time) noexcept {}
  virtual void ended(const ObservedOperation&, std::uint64_t /*number*/, Time, bool /*has_failed*/) noexcept {}
  // Called when the group has failed. Only the first reason counts.
  virtual void failed(const std::string& /*reason*/) noexcept {}

  // Returns a text for an error that says what the late `ranks` are doing instead. Returns an empty string if this
  // observer does not know. This function and behind() may query the store.
  virtual std::string whereabouts(const std::vector<int>& /*ranks*/) noexcept { return ""; }
  // Returns the ranks that are known not to have reached collective `sequence`.
  virtual std::vector<int> behind(std::uint64_t /*sequence*/) noexcept { return {}; }
};

// Makes an observer for each new group. It returns null for a group that it does not observe.
using MakeObserver = std::function<std::unique_ptr<OperationObserver>(const ObservedGroup&)>;
// The observers of a group, in the order in which they are told.
using Observers = std::vector<MakeObserver>;

}  // namespace tandem::distributed

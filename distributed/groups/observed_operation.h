// ObservedOperation: an operation in progress, from the call until its end. No other code tells the observers about it.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::distributed {

// The observers of one group. Each executor has one GroupObservers. Any thread may call the methods.
class GroupObservers {
 public:
  GroupObservers(const Observers& observers, const ObservedGroup& group);
  ~GroupObservers() { close(); }
  GroupObservers(const GroupObservers&) = delete;
  GroupObservers& operator=(const GroupObservers&) = delete;

  void failed(const std::string& reason);
  // whereabouts() and behind() ask the observers in turn. The first answer that is not empty counts. See
  // OperationObserver.
  std::string whereabouts(const std::vector<int>& ranks) const;
  std::vector<int> behind(std::uint64_t sequence) const;

  // Destroys the observers. Later calls reach no observer.
  void close();

 private:
  friend class ObservedOperation;

  // An observer may report a failure while other observers are still being made or destroyed.
  std::mutex mutex_;  // guards the list in that case; while operations run, the list does not change
  std::vector<std::unique_ptr<OperationObserver>> list_;
};

// Only one thread at a time may call the methods. The observers must outlive the object.
class ObservedOperation {
 public:
  using Time = OperationObserver::Time;

  // `sequence` is the operation's number among the group's collectives, counted from 1. It is 0 for a message between
  // two ranks, and if there is nothing to move. `what` is the name of the operation in errors.
  ObservedOperation(GroupObservers& observers, const Operation& operation, std::uint64_t sequence, std::string what);
  // An operation that is still running at this point counts as failed.
  ~ObservedOperation();
  ObservedOperation(const ObservedOperation&) = delete;
  ObservedOperation& operator=(const ObservedOperation&) = delete;

  void set_running();
  void end(bool has_failed);

  const Operation::Kind kind;
  const char* const kind_name;
  const std::string name;
  const std::size_t bytes;
  const std::uint64_t sequence;
  const std::string what;
  // The text that the ranks compare: "all_reduce 'loss' (all_reduce(sum) of f32 (1))". Empty if `sequence` is 0.
  const std::string signature;
  const Time started;

 private:
  GroupObservers& observers_;
  std::vector<std::uint64_t> numbers_;  // the result of each observer's started()
  bool runs_ = false;
};

}  // namespace tandem::distributed

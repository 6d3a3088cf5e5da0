// ObservedOperation: an operation on its way, from the call until it has ended. It alone tells the observers.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::distributed {

// The observers of one group, of which an executor has one. Any thread may call the methods.
class GroupObservers {
 public:
  GroupObservers(const Observers& observers, const ObservedGroup& group);
  ~GroupObservers() { close(); }
  GroupObservers(const GroupObservers&) = delete;
  GroupObservers& operator=(const GroupObservers&) = delete;

  void failed(const std::string& reason);
  // Asks the observers in turn; the first answer counts. See OperationObserver.
  std::string whereabouts(const std::vector<int>& ranks) const;
  std::vector<int> behind(std::uint64_t sequence) const;

  // Destroys the observers. No observer is told anything from then on.
  void close();

 private:
  friend class ObservedOperation;

  // An observer may report a failure while the others are still being made or destroyed.
  std::mutex mutex_;  // guards the list against that; while operations run, the list does not change
  std::vector<std::unique_ptr<OperationObserver>> list_;
};

// One thread at a time may call the methods. The observers outlive it.
class ObservedOperation {
 public:
  using Time = OperationObserver::Time;

  // `sequence` is the operation's number among the group's collectives, from 1 on, or 0 for a message between two ranks
  // and where there is nothing to move. `what` is what errors call the operation.
  ObservedOperation(GroupObservers& observers, const Operation& operation, std::uint64_t sequence, std::string what);
  // One that runs and has not ended has failed.
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
  // The text that the ranks compare: "all_reduce 'loss' (all_reduce(sum) of f32 (1))". Empty where `sequence` is 0.
  const std::string signature;
  const Time started;

 private:
  GroupObservers& observers_;
  std::vector<std::uint64_t> numbers_;  // what each observer returned from started()
  bool runs_ = false;
};

}  // namespace tandem::distributed

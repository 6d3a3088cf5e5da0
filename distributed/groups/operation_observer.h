// OperationObserver: is told what becomes of each operation of a process group on this rank.
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
  // Breaks off what the group does on this rank, and gives the reason to all who wait. Any thread may call it, until
  // the observer is destroyed.
  std::function<void(const std::string& reason)> fail;
};

// One observer belongs to one group. Several operations of the group may be under way at once, so several threads may
// call an observer at once:
//
// - started: the thread that called the operation.
// - running, ended: the thread that runs the operation, the same for both. No thread of the host runs an operation on a
//   GPU: running comes from the thread that called it, ended from one that has seen the GPU finish it, or the group
//   fail; while a step is recorded, from the thread that records.
// - failed: any thread.
//
// The executor waits for each call, sometimes with its lock held. So an observer returns soon, does not wait for
// another rank, and does not call its group, except for ObservedGroup::fail from a thread of its own. An observer must
// not throw, because an operation must not fail for being observed: an exception that leaves one of these functions
// ends the process.
//
// local_group() has no observers, because its operations wait for nothing.
class OperationObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The group ends. All operations that ran have ended.
  virtual ~OperationObserver() = default;

  // The program has started an operation: there is a Work. Its arrays may be looked at during this call alone. The
  // observer gets the number that it returns back with the other calls about this operation.
  virtual std::uint64_t started(const ObservedOperation&, const Operation&) noexcept { return 0; }
  // From now on this rank takes part in the operation, and waits for other ranks. A collective that runs after the
  // group has failed ends without having run. A message runs when a thread waits for it; if none does, or if the group
  // has failed by then, the message neither runs nor ends.
  virtual void running(const ObservedOperation&, std::uint64_t /*number*/, Time) noexcept {}
  virtual void ended(const ObservedOperation&, std::uint64_t /*number*/, Time, bool /*has_failed*/) noexcept {}
  // The group has failed. The first reason is the one that counts.
  virtual void failed(const std::string& /*reason*/) noexcept {}

  // Says what the late `ranks` are doing instead, for the text of an error. Empty when this observer does not know.
  // This function and behind() may ask the store.
  virtual std::string whereabouts(const std::vector<int>& /*ranks*/) noexcept { return ""; }
  // The ranks that are known not to have come to collective `sequence`.
  virtual std::vector<int> behind(std::uint64_t /*sequence*/) noexcept { return {}; }
};

// Makes an observer for each new group; null for a group that it leaves alone.
using MakeObserver = std::function<std::unique_ptr<OperationObserver>(const ObservedGroup&)>;
// The observers of a group, in the order in which they are told.
using Observers = std::vector<MakeObserver>;

}  // namespace tandem::distributed

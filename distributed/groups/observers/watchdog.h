// Watchdog: every rank tells the store what it is doing, so that a rank that waits in vain learns why.
#pragma once

#include <tandem/core/base/deadline.h>
#include <tandem/distributed/groups/members.h>
#include <tandem/distributed/groups/observed_operation.h>
#include <tandem/distributed/groups/observers/flight_recorder.h>
#include <tandem/distributed/groups/signs_of_life.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {

// The watchdog's thread looks at the store twice a second. It learns there whether another rank has failed, and whether
// some rank has waited for long and asks what the others do: then the thread writes this rank's progress to the store.
// While an operation of this rank has waited for more than half a second, this rank is one that asks. Any thread may
// call the methods. When the store goes away, the watchdog falls silent.
class Watchdog : public OperationObserver {
 public:
  // Calls `group.fail` at most once, on the watchdog's thread, with a text that says what is wrong: another rank has
  // failed, or another rank has started a different collective than this rank has. The thread also shows `recorder`
  // twice a second that this process lives; null: no recorder.
  Watchdog(const ObservedGroup& group, std::shared_ptr<FlightRecorder> recorder);
  ~Watchdog() override;

  void running(const ObservedOperation& operation, std::uint64_t, Time) noexcept override;
  void ended(const ObservedOperation& operation, std::uint64_t, Time, bool) noexcept override;

  // "rank 1 (host, pid 4711) is in no operation of the group, 12 done, and alive". For a silent rank the text ends with
  // ", no sign of life for 3 s" instead. Ranks of which nothing is known yet are left out.
  std::string whereabouts(const std::vector<int>& ranks) noexcept override;
  // The other ranks that have not come to collective `sequence`, or that have stopped giving signs of life. Ranks of
  // which nothing is known yet are not among them.
  std::vector<int> behind(std::uint64_t sequence) noexcept override;

 private:
  using Clock = RunningTime;
  struct Waiting {
    const ObservedOperation* operation;
    Clock::time_point since;
  };
  struct Progress {
    SeenSign sign;
    std::uint64_t beat = 0;
    std::uint64_t done = 0;      // collectives finished
    std::uint64_t sequence = 0;  // of the operation that runs; 0: none, or a message
    std::string what;            // empty: none
    std::string signature;
    double silent = 0;  // seconds without a sign of life
  };

  void show_life();
  void run();
  void look_at_store();
  void publish();
  Progress observe(int rank);
  std::string find_difference();

  const std::shared_ptr<Store> store_;
  const int rank_;
  const Members& members_;
  const std::function<void(const std::string&)> fail_;
  const std::shared_ptr<FlightRecorder> recorder_;

  std::string question_;  // the last one that this rank has answered; used by the watchdog's thread alone

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;                          // guarded by mutex_
  std::uint64_t beat_ = 0;                         // guarded by mutex_; how often this rank has written its progress
  std::uint64_t done_ = 0;                         // guarded by mutex_; collectives finished
  std::vector<Waiting> waiting_;                   // guarded by mutex_; in the order in which they began to run
  std::optional<Clock::time_point> asking_since_;  // guarded by mutex_; not while this rank has nothing to ask for
  std::vector<Progress> observed_;                 // guarded by mutex_; by rank

  std::thread thread_;
};

}  // namespace tandem::distributed

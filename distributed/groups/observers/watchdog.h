// Watchdog: tells the other ranks through the store what this rank is doing, so a rank that waits in vain can say why.
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

// The watchdog's thread checks the store twice a second. The store says whether another rank has failed, and whether a
// rank that has waited for long asks what the others are doing. If so, the thread writes this rank's progress to the
// store. If an operation of this rank has waited for more than half a second, this rank asks too. Any thread may call
// the methods. When the store is gone, the watchdog stops checking it.
class Watchdog : public OperationObserver {
 public:
  // Calls `group.fail` at most once, on the watchdog's thread, if another rank has failed or has started a different
  // collective. Its argument says what is wrong. Twice a second, the thread also records a sign of life in `recorder`,
  // unless it is null.
  Watchdog(const ObservedGroup& group, std::shared_ptr<FlightRecorder> recorder);
  ~Watchdog() override;

  void running(const ObservedOperation& operation, std::uint64_t, Time) noexcept override;
  void ended(const ObservedOperation& operation, std::uint64_t, Time, bool) noexcept override;

  // Returns "rank 1 (host, pid 4711) is in no operation of the group, 12 done, and alive". For a silent rank, the text
  // ends with ", no sign of life for 3 s" instead. It omits ranks that have not reported yet.
  std::string whereabouts(const std::vector<int>& ranks) noexcept override;
  // Returns the other ranks that have not reached collective `sequence`, or that have stopped giving signs of life. It
  // omits ranks that have not reported yet.
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
    std::uint64_t sequence = 0;  // of the running operation; 0: none, or a message
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

  std::string question_;  // the last one that this rank has answered; only the watchdog's thread uses it

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;                          // guarded by mutex_
  std::uint64_t beat_ = 0;                         // guarded by mutex_; how often this rank has written its progress
  std::uint64_t done_ = 0;                         // guarded by mutex_; collectives finished
  std::vector<Waiting> waiting_;                   // guarded by mutex_; in the order in which they began to run
  std::optional<Clock::time_point> asking_since_;  // guarded by mutex_; empty while this rank has nothing to ask
  std::vector<Progress> observed_;                 // guarded by mutex_; by rank

  std::thread thread_;
};

}  // namespace tandem::distributed

// Watchdog: every rank tells the store what it is doing, so that whoever waits in vain learns why.
#pragma once

#include <tandem/distributed/groups/flight_recorder.h>
#include <tandem/distributed/groups/members.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::distributed {

// Keys of the store.
constexpr const char* watch_key = "watch";      // a rank that waits for long raises this number
std::string progress_key(int rank);             // what the rank does; written anew when the watch key has changed
constexpr const char* failure_key = "failure";  // why the group failed
std::string left_key(int rank);                 // there once the rank has left the group or is dead

// The watchdog's thread looks at the store twice a second. It learns there whether another rank has failed, and whether
// some rank has waited for long and asks what the others do: then the thread writes this rank's progress to the store.
// While an operation of this rank has waited for more than half a second, this rank is one that asks. Any thread may
// call the methods. When the store goes away, the watchdog falls silent.
class Watchdog {
 public:
  // `on_failure` is called at most once, on the watchdog's thread, with a text that says what is wrong: another rank
  // has failed, or another rank has started a different collective than this rank has. `members` is ordered by rank.
  // The thread also shows `lane` twice a second that this process lives.
  Watchdog(std::shared_ptr<Store> store, int rank, Members members, const FlightLane& lane,
           std::function<void(const std::string&)> on_failure);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // An operation that waits for peers begins. `sequence` is its number among the group's collectives, from 1 on, or 0
  // for a message between two ranks. Returns a ticket, with which end() is called when the operation has ended.
  std::uint64_t begin(std::uint64_t sequence, std::string what, std::string signature);
  void end(std::uint64_t ticket);

  // Tells all ranks why this rank fails. Returns why the group failed first, which may be another rank's reason.
  std::string report(const std::string& failure);

  // `rank` has closed a connection. Waits until the store says why the group failed, or that `rank` is dead or has
  // left, or for two seconds. A rank that gave up waiting for a third one closes its connections a moment before it
  // says so.
  void await_reason(int rank);

  // The other ranks that have not come to collective `sequence`, or that have stopped giving signs of life. Ranks of
  // which nothing is known yet are not among them. Reads the store.
  std::vector<int> behind(std::uint64_t sequence);

  // What `ranks` are doing, and whether they still give signs of life: "rank 1 (host, pid 4711) is in no operation of
  // the group, 12 done, and alive". For a silent rank the text ends with ", no sign of life for 3 s" instead. Ranks of
  // which nothing is known yet are left out. Reads the store.
  std::string whereabouts(const std::vector<int>& ranks);

  // The text of an error: it says that `ranks` did not come to the operation `what` within `timeout`, and what they are
  // doing instead. Reads the store.
  std::string explain_late(const std::vector<int>& ranks, const std::string& what, std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    std::uint64_t sequence;
    std::string what;
    std::string signature;
    Clock::time_point since;
  };
  struct Progress {
    std::uint64_t beat = 0;
    std::uint64_t done = 0;      // collectives finished
    std::uint64_t sequence = 0;  // of the operation that runs; 0: none, or a message
    std::string what;            // empty: none
    std::string signature;
    Clock::time_point changed = Clock::now();
    double silent = 0;  // seconds without a sign of life
  };

  void run();
  void look_at_store();
  void publish();
  Progress observe(int rank);
  std::string find_difference();

  const std::shared_ptr<Store> store_;
  const int rank_;
  const Members members_;
  const FlightLane lane_;
  const std::function<void(const std::string&)> on_failure_;

  std::string watched_;  // the watch key's value, last time; used by the watchdog's thread alone

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;                          // guarded by mutex_
  std::uint64_t beat_ = 0;                         // guarded by mutex_; how often this rank has written its progress
  std::uint64_t tickets_ = 0;                      // guarded by mutex_; given out so far
  std::uint64_t done_ = 0;                         // guarded by mutex_; collectives finished
  std::map<std::uint64_t, Waiting> waiting_;       // guarded by mutex_; by ticket
  std::optional<Clock::time_point> asking_since_;  // guarded by mutex_; not while this rank has nothing to ask for
  std::vector<Progress> observed_;                 // guarded by mutex_; by rank

  std::thread thread_;
};

}  // namespace tandem::distributed

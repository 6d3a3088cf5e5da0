// Watchdog: every rank tells the store what it is doing, so that whoever waits in vain learns why.
#pragma once

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

// Keys of the store. What rank `rank` does: new about twice a second for as long as somebody raises the watch key. Why
// the group failed.
std::string progress_key(int rank);
constexpr const char* watch_key = "watch";
constexpr const char* failure_key = "failure";
std::string left_key(int rank);  // there once the rank has left the group or is dead

// A thread looks at the store twice a second: whether another rank has failed, and whether some rank waits for
// long and wants to know what the others do; then it writes this rank's progress there. While an operation of this
// rank waits for more than half a second it is the one that asks. Methods may be called by any thread. When the store
// goes away the watchdog says nothing more.
class Watchdog {
 public:
  // `on_failure` is called once, on the watchdog's thread, with what is wrong: another rank has failed, or
  // started another collective than this one. `members` by rank.
  Watchdog(std::shared_ptr<Store> store, int rank, Members members, std::function<void(const std::string&)> on_failure);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // An operation that waits for peers. `sequence` counts collectives; 0 for a message between two ranks.
  std::uint64_t begin(std::uint64_t sequence, std::string what, std::string signature);
  void end(std::uint64_t ticket);

  // Tells everybody why this rank fails. Returns what the group failed of first, which may be something else.
  std::string report(const std::string& failure);

  // The other ranks that have not come to collective `sequence`, or have stopped giving signs of life; not those of
  // which nothing is known yet. Reads the store.
  std::vector<int> behind(std::uint64_t sequence);

  // What `ranks` are doing and when they last gave a sign of life: "rank 1 ... is not in any operation, 12
  // collectives done; last sign of life 0.4 s ago". Reads the store.
  std::string whereabouts(const std::vector<int>& ranks);

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
  };

  void run();
  void publish();
  void observe(int rank);
  static double seconds_since(Clock::time_point then);
  std::string find_difference();

  const std::shared_ptr<Store> store_;
  const int rank_;
  const Members members_;
  const std::function<void(const std::string&)> on_failure_;

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::uint64_t beat_ = 0;
  std::string watched_;  // the watch key's value, last time
  std::uint64_t tickets_ = 0;
  std::uint64_t done_ = 0;
  std::map<std::uint64_t, Waiting> waiting_;  // by ticket

  std::mutex observed_mutex_;
  std::optional<Clock::time_point> asking_since_;
  std::vector<Progress> observed_;  // by rank

  std::thread thread_;
};

}  // namespace tandem::distributed

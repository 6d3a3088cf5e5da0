// StopRequest: what ends a training before it is done: a signal, or a limit of time.
#pragma once

#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::distributed {

// A training throws this on every rank when a signal has ended it. TrainingOptions::run() makes the exit code of it.
// It is no Error: nothing went wrong.
struct StoppedBySignal : std::exception {
  explicit StoppedBySignal(int signal) : signal(signal) {}
  const char* what() const noexcept override { return "stopped by a signal"; }
  int signal;
};

// While it lives, SIGTERM, SIGINT and SIGUSR1 do not end the process: they are requests, and poll() tells all ranks of
// them. Two signals within one second count as one, because a terminal and a launcher may both send it. A second signal
// after that ends the process at once.
//
// A launcher waits no longer than its grace time, which it says in TANDEM_GRACE (seconds). When no step ends within
// that time, rank 0 says which checkpoint is left, and which grace time would have sufficed, and ends.
//
// One at a time in a process may take signals.
class StopRequest {
 public:
  struct Options {
    bool takes_signals = false;
    std::optional<std::chrono::duration<double>> max_time;  // counted from the construction, by rank 0's clock
    Device device;                                          // where the group's arrays may lie
  };
  StopRequest(ProcessGroup& group, const Options& options);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  struct Reason {
    int signal = 0;
    bool time_is_up = false;
    explicit operator bool() const { return signal != 0 || time_is_up; }
  };
  // To be called after each optimizer step, by all ranks. Returns the same on all: so they stop after the same step.
  // The ranks ask each other about ten times a second, not after each step.
  Reason poll();

  // For the message: the newest checkpoint.
  void saved(const std::string& path);

 private:
  Reason mine() const;
  void watch_grace(const std::stop_token& stop, std::chrono::duration<double> grace);

  ProcessGroup& group_;
  const Options options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t stride_ = 1;  // steps from one question to the next
  std::int64_t left_ = 1;    // steps until the next question
  std::chrono::steady_clock::time_point asked_ = start_;

  std::vector<std::pair<int, struct sigaction>> previous_;

  std::mutex mutex_;
  std::string checkpoint_;                                    // guarded by mutex_
  std::chrono::duration<double> longest_step_{};              // guarded by mutex_
  std::chrono::steady_clock::time_point last_step_ = start_;  // guarded by mutex_
  std::jthread watcher_;                                      // rank 0's, under a launcher with a grace time
};

}  // namespace tandem::distributed
